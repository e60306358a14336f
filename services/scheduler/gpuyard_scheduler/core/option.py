"""Nodes that can take a whole gang, the best first, and what makes one better than another."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpuyard.topology.choice import Choice, choose
from gpuyard_scheduler.core.node import Node, State
from gpuyard_scheduler.core.share import Rank, cpu_ranks_of, gpus_of


class Merit(NamedTuple):
    """Compared field by field; less is better. Bandwidths are negative GB/s, unknown ones count as 0."""

    failed_launches: int
    bottleneck: float
    total: float
    parted: int
    """Pairs joined by NVLink of which one is taken and one stays free."""
    left: int
    """GPUs that stay free: the fullest node is taken, so that others stay whole."""
    load: int


class Option(NamedTuple):
    """A node that can take all the ranks, and with which GPUs. Options sort by merit, then by name."""

    merit: Merit
    taken_places: int
    name: str
    node: Node
    choice: Choice


def options(ranks: Sequence[Rank], groups: Mapping[State, Iterable[Node]]) -> list[Option]:
    """The first node of each group of equal nodes that can take all ranks, best first."""
    gpus, places = gpus_of(ranks), cpu_ranks_of(ranks)
    found = []
    for state, nodes in groups.items():
        roomy = [node for node in nodes if not places or node.room_for_cpu_ranks() >= places]
        choice = choose(state.shape, state.free, gpus, state.load) if roomy else None
        if choice:
            taken, name, node = min((_taken_places(node, places), node.id, node) for node in roomy)
            found.append(Option(merit(state, choice), taken, name, node, choice))
    return sorted(found)


def _taken_places(node: Node, places: int) -> int:
    """Ranks without GPUs are spread over equal nodes."""
    return -node.room_for_cpu_ranks() if places else 0


def merit(state: State, choice: Choice) -> Merit:
    """What the choice is worth on nodes of this state."""
    rest = [gpu for gpu in range(state.shape.size) if state.free >> gpu & 1 and gpu not in choice.gpus]
    nvlinks = state.shape.nvlinks
    return Merit(
        state.failed_launches,
        -(choice.bottleneck_gb_s or 0.0),
        # Rounded: sums of equal links in another order must not count as different.
        -round(choice.sum_gb_s or 0.0, 3),
        sum(bool(nvlinks[a][b]) for a in choice.gpus for b in rest),
        # Work without GPUs stays away from nodes that have some.
        len(rest) if choice.gpus else state.shape.size,
        sum(state.load[gpu] for gpu in choice.gpus) if state.load else 0,
    )


def why_worse(other: Merit, best: Merit) -> str:
    """Why the other was not taken, in one sentence."""
    if other.failed_launches != best.failed_launches:
        return "a launch failed there lately"
    if other.bottleneck != best.bottleneck:
        return f"its free GPUs reach {_gb_s(other.bottleneck)} instead of {_gb_s(best.bottleneck)}"
    if other.total != best.total:
        return f"its links add up to {_gb_s(other.total)} instead of {_gb_s(best.total)}"
    if other.parted != best.parted:
        return f"it would part {other.parted} pairs joined by NVLink instead of {best.parted}"
    if other.left != best.left:
        return f"it would leave {other.left} GPUs free instead of {best.left}: the fullest node is taken"
    if other.load != best.load:
        return "its GPUs are busier"
    return "just as good: the first by name was taken"


def _gb_s(negative: float) -> str:
    return f"{round(-negative, 1):g} GB/s" if negative else "an unknown speed"
