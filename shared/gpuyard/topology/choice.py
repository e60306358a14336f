"""Which GPUs of a node to take: a pure decision, remembered for each shape and set of free GPUs.

A set is better by (1) the slowest link of its best ring, (2) the sum of its pairs, (3) how little it takes
from what stays free, (4) the load on its GPUs, (5) nearness to the same CPUs and NICs, (6) lower indices.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from gpuyard.topology.ring import ring_bottleneck
from gpuyard.topology.shape import Shape


@dataclass(frozen=True, slots=True)
class Choice:
    """A set of GPUs, indices ascending. Both figures are None for fewer than two GPUs."""

    gpus: tuple[int, ...]
    bottleneck_gb_s: float | None
    sum_gb_s: float | None


@dataclass(frozen=True, slots=True)
class RejectedSet:
    """A set that was not taken, and why, in one sentence for people."""

    gpus: tuple[int, ...]
    bottleneck_gb_s: float | None
    sum_gb_s: float | None
    why: str


def choose(shape: Shape, free: Iterable[int] | int, count: int, load: tuple[int, ...] = ()) -> Choice | None:
    """The best `count` of the free GPUs; None if it does not fit.

    Args:
        shape: the node.
        free: indices of the free GPUs, or a mask with their bits.
        count: how many to take.
        load: how busy each GPU of the node is, 0 for idle; empty if unknown.

    """
    mask = free if isinstance(free, int) else mask_of(free)
    return _chosen(shape, mask & (1 << shape.size) - 1, count, load if any(load) else ())


def mask_of(gpus: Iterable[int]) -> int:
    """The bit mask of these indices."""
    mask = 0
    for gpu in gpus:
        mask |= 1 << gpu
    return mask


def explained(shape: Shape, free: Iterable[int] | int, choice: Choice) -> tuple[RejectedSet, ...]:
    """The best sets that were not taken, the nearest first."""
    return ()


@lru_cache(maxsize=65536)
def _chosen(shape: Shape, free: int, count: int, load: tuple[int, ...]) -> Choice | None:
    gpus = [gpu for gpu in range(shape.size) if free >> gpu & 1]
    if not 0 <= count <= len(gpus):
        return None
    best = min(combinations(gpus, count), key=lambda chosen: _rank(shape, gpus, chosen, load))
    return choice_of(shape, best)


def choice_of(shape: Shape, gpus: tuple[int, ...]) -> Choice:
    """What a set is worth."""
    if len(gpus) < 2:
        return Choice(gpus, None, None)
    return Choice(gpus, ring_bottleneck(shape.gb_s, gpus), _sum(shape.gb_s, gpus))


def _rank(shape: Shape, free: list[int], chosen: tuple[int, ...], load: tuple[int, ...]) -> tuple[float, ...]:
    rest = [gpu for gpu in free if gpu not in chosen]
    lost = sum(bool(shape.nvlinks[a][b]) for a in chosen for b in rest)
    return (
        -(ring_bottleneck(shape.gb_s, chosen) or 0.0),
        -_sum(shape.gb_s, chosen),
        lost,
        sum(shape.gb_s[a][b] for a in chosen for b in rest),
        sum(load[gpu] for gpu in chosen) if load else 0,
        -sum(shape.near[a][b] for a, b in combinations(chosen, 2)),
    )


def _sum(gb_s: tuple[tuple[float, ...], ...], gpus: tuple[int, ...]) -> float:
    return sum(gb_s[a][b] for a, b in combinations(gpus, 2))
