"""Which GPUs of a node to take: the best-linked set, remembered for each shape of node and free set.

A set is better by (1) its slowest pair, since collectives run at the speed of the slowest link, (2) the sum
of its pairs, (3) how little bandwidth it takes from the GPUs that stay free, (4) lower indices.
Exhaustive up to `_EXHAUSTIVE` candidate sets (every choice among 8 GPUs, and up to 5 of 16), greedy beyond.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

from gpuyard.contracts.hardware import Inventory

Matrix = tuple[tuple[float, ...], ...]
_EXHAUSTIVE = 5000


def matrix_of(inventory: Inventory) -> Matrix:
    """Bandwidth between each pair of GPUs, `[n_gpus][n_gpus]` in GB/s; unknown links count as 0."""
    size = len(inventory.gpus)
    rows = [[0.0] * size for _ in range(size)]
    for link in inventory.links:
        rows[link.a][link.b] = rows[link.b][link.a] = link.gb_s or 0.0
    return tuple(tuple(row) for row in rows)


@lru_cache(maxsize=65536)
def best_set(matrix: Matrix, free: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The best `count` of the `free` GPUs (indices, ascending). `count` must not exceed the free ones."""
    if count in (0, len(free)):
        return free if count else ()
    candidates: Iterable[tuple[int, ...]]
    if math.comb(len(free), count) <= _EXHAUSTIVE:
        candidates = combinations(free, count)
    else:
        candidates = (_grown(matrix, free, count, seed) for seed in free)
    return min(candidates, key=lambda chosen: _rank(matrix, free, chosen))


def bottleneck(matrix: Matrix, chosen: tuple[int, ...]) -> float | None:
    """Bandwidth of the slowest pair in GB/s; None for fewer than two GPUs."""
    return min((matrix[a][b] for a, b in combinations(chosen, 2)), default=None)


def _rank(matrix: Matrix, free: tuple[int, ...], chosen: tuple[int, ...]) -> tuple[float, float, float]:
    slowest = bottleneck(matrix, chosen) or 0.0
    inside = sum(matrix[a][b] for a, b in combinations(chosen, 2))
    rest = [gpu for gpu in free if gpu not in chosen]
    damage = sum(matrix[a][b] for a in chosen for b in rest)
    return -slowest, -inside, damage


def _grown(matrix: Matrix, free: tuple[int, ...], count: int, seed: int) -> tuple[int, ...]:
    """Grow a set from one GPU, each time by the one that keeps its slowest pair fastest."""
    chosen = [seed]
    while len(chosen) < count:
        rest = [gpu for gpu in free if gpu not in chosen]
        chosen.append(max(rest, key=lambda gpu: _closeness(matrix, gpu, chosen)))
    return tuple(sorted(chosen))


def _closeness(matrix: Matrix, gpu: int, chosen: list[int]) -> tuple[float, float]:
    speeds = [matrix[gpu][other] for other in chosen]
    return min(speeds), sum(speeds)
