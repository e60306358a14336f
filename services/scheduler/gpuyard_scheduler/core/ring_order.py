"""In which order the ranks of a node sit on the GPUs that were chosen for all.

Consecutive ranks are neighbours on the best ring, and a rank with several GPUs gets consecutive ones: a
program that numbers its ranks around a ring then runs over the fast links without knowing them.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate, combinations, pairwise

from gpuyard.topology.choice import Choice
from gpuyard.topology.shape import Shape

Peers = Mapping[int, tuple[int, ...]]

_MOST_GPUS = 64
_DEAD_ENDS = 4096
# Bandwidths of a choice are exact to kB/s.
_ROUNDING_GB_S = 1e-6


@lru_cache(maxsize=4096)
def seat_order(shape: Shape, choice: Choice, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The GPUs along the ring, begun where ranks of several GPUs get the most bandwidth of their own.

    Args:
        shape: the node.
        choice: the GPUs.
        sizes: GPUs of each rank, in the order of ranks.

    """
    ring = ring_order(shape, choice)
    if max(sizes, default=0) < 2:
        return ring
    cuts = [*accumulate(sizes, initial=0)]
    turns = [ring[start:] + ring[:start] for start in range(len(ring))]
    return max(turns, key=lambda turn: sum(_inside(shape, turn[a:b]) for a, b in pairwise(cuts)))


def ring_order(shape: Shape, choice: Choice) -> tuple[int, ...]:
    """The GPUs along one of the best rings, the fastest link first at each step.

    Ascending where the search is given up: the order is a kindness, not a promise.
    """
    gpus, least_gb_s = choice.gpus, (choice.bottleneck_gb_s or 0.0) - _ROUNDING_GB_S
    if not 2 < len(gpus) <= _MOST_GPUS:
        return gpus
    peers = {
        a: tuple(
            sorted(
                (b for b in gpus if b != a and shape.gb_s[a][b] >= least_gb_s),
                key=lambda b: (-shape.gb_s[a][b], b),
            )
        )
        for a in gpus
    }
    return _walk(peers, gpus[:1], frozenset(gpus[1:]), set()) or gpus


def _walk(
    peers: Peers, path: tuple[int, ...], left: frozenset[int], dead: set[tuple[int, frozenset[int]]]
) -> tuple[int, ...] | None:
    """Go on from the path through all that are left and back; depth first, remembering dead ends."""
    end = path[-1]
    if not left:
        return path if path[0] in peers[end] else None
    if (end, left) in dead or len(dead) > _DEAD_ENDS:
        return None
    for peer in peers[end]:
        if peer in left and (found := _walk(peers, (*path, peer), left - {peer}, dead)):
            return found
    dead.add((end, left))
    return None


def _inside(shape: Shape, gpus: tuple[int, ...]) -> float:
    return sum(shape.gb_s[a][b] for a, b in combinations(gpus, 2))
