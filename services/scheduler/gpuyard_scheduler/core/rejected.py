"""What was not taken, and why: told with the placement that is made, and worked out for no other."""

from collections.abc import Iterator, Sequence
from itertools import islice

from gpuyard.contracts.placement import Alternative
from gpuyard.topology.choice import Choice, explained
from gpuyard.topology.rejection import RejectedSet
from gpuyard_scheduler.core.node import Node
from gpuyard_scheduler.core.option import Option, why_worse
from gpuyard_scheduler.core.seats import figures

_AT_MOST = 3
_MOST_GPUS = 64
"""Sets larger than this are not listed: a record must not grow with its gang again and again."""


def rejected(best: Option, others: Sequence[Option]) -> tuple[Alternative, ...]:
    """The next best sets on the node, and the best set on another node."""
    if not 0 < len(best.choice.gpus) <= _MOST_GPUS:
        return ()
    elsewhere = [_on(other.node, other.choice, why_worse(other, best)) for other in others[:1]]
    return (*islice(_here(best), _AT_MOST - len(elsewhere)), *elsewhere)


def _here(best: Option) -> Iterator[Alternative]:
    state = best.node.state
    for found in explained(state.shape, state.free, best.choice, state.load):
        yield _on(best.node, found, found.why)


def _on(node: Node, found: Choice | RejectedSet, why: str) -> Alternative:
    gpus = tuple(node.gpus[position].uuid for position in found.gpus)
    return Alternative(node.id, gpus, why, *figures(found))
