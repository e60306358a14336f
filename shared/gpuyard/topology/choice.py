"""Which GPUs of a node to take: a pure decision, remembered for each shape and set of free GPUs.

A set is better by (1) the slowest link of its best ring, (2) the sum of its pairs, (3) how whole it leaves
pairs, quads and sockets, its own ones first, (4) the load on its GPUs, (5) the NICs that they share,
(6) lower indices.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from gpuyard.topology.rejection import Question, RejectedSet, rejected_sets
from gpuyard.topology.ring import bits_of, mask_of
from gpuyard.topology.search import PER_GB_S, best_ring, best_set, terrain_of
from gpuyard.topology.shape import Shape

__all__ = ["Choice", "RejectedSet", "choice_of", "choose", "decided", "explained"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A set of GPUs, indices ascending. Both figures are None for fewer than two GPUs."""

    gpus: tuple[int, ...]
    bottleneck_gb_s: float | None
    sum_gb_s: float | None


def choose(shape: Shape, free: Iterable[int] | int, count: int, load: tuple[int, ...] = ()) -> Choice | None:
    """The best `count` of the free GPUs; None if it does not fit.

    Args:
        shape: the node.
        free: indices of the free GPUs, or a mask with their bits.
        count: how many to take.
        load: how busy each GPU of the node is, 0 for idle; empty if unknown.

    """
    mask = mask_of(free)
    return _remembered(shape, mask & (1 << shape.size) - 1, count, load if any(load) else ())


def explained(
    shape: Shape, free: Iterable[int] | int, choice: Choice, load: tuple[int, ...] = ()
) -> tuple[RejectedSet, ...]:
    """The best sets that were not taken and why, the nearest miss first; empty if there was no choice."""
    mask = mask_of(free) & (1 << shape.size) - 1
    return _explained(shape, mask, mask_of(choice.gpus), load if any(load) else ())


@lru_cache(maxsize=4096)
def _explained(shape: Shape, free: int, chosen: int, load: tuple[int, ...]) -> tuple[RejectedSet, ...]:
    if chosen in (0, free):
        return ()
    return tuple(rejected_sets(Question(terrain_of(shape), free, load), chosen))


def decided(shape: Shape, free: int, count: int, load: tuple[int, ...]) -> Choice | None:
    """The same as `choose`, worked out anew."""
    if not 0 <= count <= free.bit_count():
        return None
    return choice_of(shape, bits_of(best_set(terrain_of(shape), free, count, load) if count else 0))


_remembered = lru_cache(maxsize=16384)(decided)


def choice_of(shape: Shape, gpus: tuple[int, ...]) -> Choice:
    """What a set is worth."""
    if len(gpus) < 2:
        return Choice(gpus, None, None)
    terrain = terrain_of(shape)
    rate, _ = best_ring(terrain, mask_of(gpus), len(gpus))
    total = sum(terrain.rates[a][b] for a, b in combinations(gpus, 2))
    return Choice(gpus, rate / PER_GB_S, total / PER_GB_S)
