"""Which node a probe is for, how many of its GPUs it takes, and who is in its way. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.cli import words
from gpuyard.cli.node_names import the_node
from gpuyard.client.node_view import GpuView, NodeView
from gpuyard.contracts.errors import InvalidSpec, Refused
from gpuyard.contracts.hardware import Health

_WITHOUT = (
    "Without a probe placement goes by the table of link types, which `gpuyard topo` shows with the links."
)


@dataclass(frozen=True)
class Wish:
    """What the user asked for."""

    node: str | None
    gpus: int | None
    no_wait: bool
    device: str

    @property
    def is_stand_in(self) -> bool:
        """Whether the host's memory stands in for GPUs."""
        return self.device == "cpu"


@dataclass(frozen=True)
class Target:
    """A node, and how many of its GPUs to take."""

    node: NodeView
    gpus: int

    @property
    def holders(self) -> list[str]:
        """The jobs that hold GPUs of the node."""
        return list(dict.fromkeys(gpu.holder for gpu in self.node.gpus if gpu.holder))


def target(nodes: Sequence[NodeView], wish: Wish) -> Target:
    """Choose the node and count its GPUs.

    Raises:
        InvalidSpec: no node was named and there are several, or fewer than two GPUs are wanted.
        NotFound: there is no such node.
        Refused: nothing can be measured there, or not now.

    """
    if wish.gpus is not None and wish.gpus < 2:
        raise InvalidSpec("--gpus is at least 2: a link has two ends")
    node = _only(nodes, wish) if wish.node is None else the_node(nodes, wish.node)[0]
    _check_kind(node, wish)
    return Target(node, _count(node, wish))


def _only(nodes: Sequence[NodeView], wish: Wish) -> NodeView:
    candidates = [node for node in nodes if len(node.gpus) > 1 and node.simulated == wish.is_stand_in]
    if len(candidates) > 1:
        named = ", ".join(node.node for node in candidates)
        raise InvalidSpec("there are several nodes: name the one to probe", f"One of {named}.")
    if not candidates:
        raise Refused("no node here has two real GPUs, so there is no link to measure", _WITHOUT)
    return candidates[0]


def _check_kind(node: NodeView, wish: Wish) -> None:
    if len(node.gpus) < 2:
        raise Refused(
            f"{node.node} has {words.count(len(node.gpus), 'GPU')}, so there is no link to measure",
            "A probe needs a node with two GPUs or more; `gpuyard nodes` shows all nodes.",
        )
    if node.simulated and not wish.is_stand_in:
        raise Refused(f"{node.node} is simulated: there are no GPUs behind it to measure", _WITHOUT)
    if wish.is_stand_in and not node.simulated:
        raise Refused(f"{node.node} has real GPUs: the host's memory can't stand in for them")


def _count(node: NodeView, wish: Wish) -> int:
    """How many GPUs to take: all in service, or those that are free now if nobody waits."""
    usable = [gpu for gpu in node.gpus if gpu.health is Health.OK]
    free = [gpu for gpu in usable if node.has_free(gpu)]
    least = wish.gpus or 2
    if len(usable) < least:
        raise Refused(
            f"only {len(usable)} of the {len(node.gpus)} GPUs of {node.node} can be used", _why_unusable(node)
        )
    if wish.no_wait and len(free) < least:
        raise Refused(
            f"{words.count(len(free), 'GPU')} of {node.node} can be had now, {least} are needed",
            _in_the_way(usable),
        )
    return wish.gpus or len(free if wish.no_wait else usable)


def _why_unusable(node: NodeView) -> str:
    return (
        "; ".join(
            f"GPU {gpu.index}: {gpu.health_reason or gpu.health}"
            for gpu in node.gpus
            if gpu.health is not Health.OK
        )
        or "Ask for fewer with --gpus."
    )


def _in_the_way(gpus: Sequence[GpuView]) -> str:
    holders = dict.fromkeys(gpu.holder for gpu in gpus if gpu.holder)
    if not holders:
        return "The node is silent; `gpuyard doctor` looks for the cause."
    return f"Held by {', '.join(filter(None, holders))}. Without --no-wait the probe waits for them."
