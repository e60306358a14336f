"""Asking a node's monitor what its GPUs did in the last hour."""

from gpuyard.bus.port import Bus
from gpuyard.contracts.codec import decode, encode, validated
from gpuyard.contracts.errors import Failure, InvalidSpec, Unavailable, error_from
from gpuyard.contracts.history import History, HistoryQuery
from gpuyard.contracts.ids import is_id
from gpuyard.contracts.subjects import HISTORY_QUERY


async def ask(bus: Bus, node: str, *, last_s: float, step_s: float, timeout_s: float) -> History:
    """The newest readings of a node's GPUs.

    Raises:
        InvalidSpec: that can't be a node, or these can't be times.
        Unavailable: the node's monitor does not answer, or can't.

    """
    if not is_id(node):
        raise InvalidSpec(f"`{node[:80]}` can't be a node", "`gpuyard nodes` lists the nodes.")
    query = encode(validated(HistoryQuery(float(last_s), float(step_s))))
    try:
        answer = await bus.request(HISTORY_QUERY(node=node), query, timeout_s=timeout_s)
    except Unavailable as error:
        raise Unavailable(
            f"the monitor of node {node} does not answer: {error.message}",
            "`gpuyard nodes` shows whether the node is heard.",
            node=node,
        ) from error
    history: History | Failure = decode(answer.payload, History | Failure)
    if isinstance(history, Failure):
        raise error_from(history)
    return history
