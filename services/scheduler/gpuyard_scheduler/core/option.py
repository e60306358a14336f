"""Nodes that can take a whole gang, the best first, and what makes one better than another."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuyard.topology.choice import Choice, choose
from gpuyard_scheduler.core.node import Node, State
from gpuyard_scheduler.core.share import Rank, cpu_ranks_of, gpus_of

_STEP = 1.02


class Merit(NamedTuple):
    """Compared field by field; less is better.

    Bandwidths are in negative steps of 2 %, so that noise of measurements tells no nodes apart.
    """

    failed_launches: int
    bottleneck: int
    total: int
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


@lru_cache(maxsize=65536)
def merit(state: State, choice: Choice) -> Merit:
    """What the choice is worth on nodes of this state."""
    rest = [gpu for gpu in range(state.shape.size) if state.free >> gpu & 1 and gpu not in choice.gpus]
    nvlinks = state.shape.nvlinks
    return Merit(
        state.failed_launches,
        -_steps(choice.bottleneck_gb_s),
        -_steps(choice.sum_gb_s),
        sum(bool(nvlinks[a][b]) for a in choice.gpus for b in rest),
        # Work without GPUs stays away from nodes that have some.
        len(rest) if choice.gpus else state.shape.size,
        sum(state.load[gpu] for gpu in choice.gpus) if state.load else 0,
    )


def _steps(gb_s: float | None) -> int:
    return round(math.log(1.0 + gb_s, _STEP)) if gb_s else 0


def why_worse(option: Option, best: Option) -> str:
    """Why the option was not taken, in one sentence."""
    theirs, ours = option.merit, best.merit
    if theirs.failed_launches != ours.failed_launches:
        return "a launch failed there lately"
    if theirs.bottleneck != ours.bottleneck:
        speeds = _instead(option.choice.bottleneck_gb_s, best.choice.bottleneck_gb_s)
        return f"its free GPUs reach {speeds}"
    if theirs.total != ours.total:
        return f"its links add up to {_instead(option.choice.sum_gb_s, best.choice.sum_gb_s)}"
    if theirs.parted != ours.parted:
        return f"it would part {theirs.parted} pairs joined by NVLink instead of {ours.parted}"
    if theirs.left != ours.left:
        return f"GPUs left free: {theirs.left} instead of {ours.left}; the fullest node is taken"
    if theirs.load != ours.load:
        return "its GPUs are busier"
    return "just as good: the first by name was taken"


def _instead(theirs: float | None, ours: float | None) -> str:
    if not theirs:
        return f"an unknown speed instead of {round(ours or 0.0, 1):g} GB/s"
    return f"{round(theirs, 1):g} GB/s instead of {round(ours or 0.0, 1):g}"
