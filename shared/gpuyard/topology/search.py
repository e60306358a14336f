"""The search for the best set of GPUs, exact for up to 16 GPUs and for more where many are alike.

First the highest rate at which a ring of the wanted length exists among the free GPUs. Then all sets
that such a ring can pass, by what they score: the sum of their pairs, then the bonds they keep, then how few
they cut. All are sums over pairs, so one number holds them. The first in that order through which the
ring really goes is taken, with those that score the same; the remaining criteria decide among these.

GPUs that are alike (twins: equal links and locality to all others) may be exchanged, so only the first free
ones of each class of twins are tried. That leaves nine sets where 8 of 16 GPUs behind switches are wanted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from operator import add

from gpuyard.topology.bonds import Tier, bonds_of, tiers_of
from gpuyard.topology.ring import Graph, bits_of, core, graph_of, ring_in
from gpuyard.topology.shape import Matrix, Shape

# kB/s: sums are exact, and measured figures keep every digit that they print.
PER_GB_S = 1_000_000
# C(16, 8) = 12,870 sets are the most for 16 GPUs.
_MOST_SETS = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Terrain:
    """What the search needs to know of a shape, worked out once."""

    shape: Shape
    rates: Matrix[int]
    steps: tuple[int, ...]
    edges: tuple[tuple[int, int, int], ...]
    twins: tuple[int, ...]
    bonds: Matrix[int]
    scores: Matrix[int]
    tiers: tuple[Tier, ...]


@lru_cache(maxsize=256)
def terrain_of(shape: Shape) -> Terrain:
    """What the search needs to know of a shape."""
    rates = tuple(tuple(round(gb_s * PER_GB_S) for gb_s in row) for row in shape.gb_s)
    pairs = combinations(range(shape.size), 2)
    edges = tuple(sorted(((rates[a][b], a, b) for a, b in pairs), reverse=True))
    tiers = tiers_of(shape)
    bonds = bonds_of(tiers, rates)
    return Terrain(
        shape,
        rates,
        tuple(sorted({rate for rate, _, _ in edges})) or (0,),
        edges,
        _twins(shape, rates),
        bonds,
        _scores(rates, bonds),
        tiers,
    )


@lru_cache(maxsize=4096)
def graph_at(terrain: Terrain, rate: int) -> Graph:
    """The links of at least this rate."""
    return graph_of(terrain.shape.size, ((a, b) for kb_s, a, b in terrain.edges if kb_s >= rate))


def _scores(rates: Matrix[int], bonds: Matrix[int]) -> Matrix[int]:
    """What a pair adds to the score of a set: its rate, its bond, and, from each end, a bond not cut."""
    most = 1 + sum(map(sum, bonds))
    return tuple(
        tuple((rate * most + bond) * most + 2 * bond for rate, bond in zip(row, bonded, strict=True))
        for row, bonded in zip(rates, bonds, strict=True)
    )


def _twins(shape: Shape, rates: Matrix[int]) -> tuple[int, ...]:
    """For each GPU the first one that it may be exchanged with."""
    cells = [
        list(zip(rates[gpu], shape.nvlinks[gpu], shape.levels[gpu], shape.nics[gpu], strict=True))
        for gpu in range(shape.size)
    ]

    def are_twins(a: int, b: int) -> bool:
        others = (gpu for gpu in range(shape.size) if gpu not in (a, b))
        return shape.sides[a] == shape.sides[b] and all(cells[a][gpu] == cells[b][gpu] for gpu in others)

    return tuple(next(a for a in range(b + 1) if a == b or are_twins(a, b)) for b in range(shape.size))


def best_set(terrain: Terrain, free: int, count: int, load: Sequence[int] = ()) -> int:
    """The best set of so many free GPUs, as a mask. `count` must not exceed the free ones."""
    rate, ring = best_ring(terrain, free, count)
    graph = graph_at(terrain, rate)
    within = core(graph, free, min(count - 1, 2))
    seats = _seats(terrain, within, load)
    if _sets(seats, count) > _MOST_SETS:
        return _improved(terrain, graph, free, within, ring)
    scored = _scored(terrain, seats, count, _alone(terrain, free))
    tied = _first_tied(scored, graph, count)
    return min(tied, key=lambda chosen: last_criteria(terrain, free, chosen, load))


def best_ring(terrain: Terrain, free: int, count: int) -> tuple[int, int]:
    """The highest rate of a ring of so many free GPUs, and the GPUs of one."""
    low, high = 0, len(terrain.steps) - 1
    ring = sum(1 << gpu for gpu in bits_of(free)[:count])
    while low < high:
        middle = (low + high + 1) // 2
        found = ring_in(graph_at(terrain, terrain.steps[middle]), free, count)
        low, high = (low, middle - 1) if found is None else (middle, high)
        ring = ring if found is None else found
    return terrain.steps[low], ring


def sets_to_try(terrain: Terrain, free: int, count: int, load: Sequence[int], most: int) -> list[int] | None:
    """All sets of so many free GPUs, of twins the first ones only; None if there are more than `most`."""
    seats = _seats(terrain, free, load)
    if _sets(seats, count) > most:
        return None
    return [chosen for _, chosen in _scored(terrain, seats, count, _alone(terrain, free))]


def last_criteria(
    terrain: Terrain, free: int, chosen: int, load: Sequence[int]
) -> tuple[tuple[int, ...], int, int, tuple[int, ...]]:
    """What decides between sets of one score, the lowest first: broken quads, load, near NICs, indices."""
    gpus, nics = bits_of(chosen), terrain.shape.nics
    return (
        broken_quads(terrain, free, chosen),
        sum(load[gpu] for gpu in gpus) if load else 0,
        -sum(nics[a][b] for a, b in combinations(gpus, 2)),
        gpus,
    )


def broken_quads(terrain: Terrain, free: int, chosen: int) -> tuple[int, ...]:
    """How many free quads of each kind lose a part, but not all, of their GPUs."""
    return tuple(
        sum(quad & free == quad and 0 != quad & chosen != quad for quad in tier.quads)
        for tier in terrain.tiers
    )


def _seats(terrain: Terrain, within: int, load: Sequence[int]) -> list[tuple[int, bool]]:
    """GPUs in the order to try them: twins side by side, the idlest first; whether each begins a class."""

    def rank(gpu: int) -> tuple[int, int, int]:
        return terrain.twins[gpu], load[gpu] if load else 0, gpu

    gpus = sorted(bits_of(within), key=rank)
    classes = [terrain.twins[gpu] for gpu in gpus]
    return [(gpu, not at or classes[at - 1] != classes[at]) for at, gpu in enumerate(gpus)]


def _sets(seats: Sequence[tuple[int, bool]], count: int) -> int:
    """How many sets there are to try."""
    begins = [at for at, (_, is_first) in enumerate(seats) if is_first] + [len(seats)]
    ways = [1] + [0] * count
    for begin, end in pairwise(begins):
        ways = [sum(ways[max(0, total - end + begin) : total + 1]) for total in range(count + 1)]
    return ways[count]


def _scored(
    terrain: Terrain, seats: Sequence[tuple[int, bool]], count: int, alone: Sequence[int]
) -> list[tuple[int, int]]:
    """Every set to try with its score."""
    found: list[tuple[int, int]] = []

    def grow(at: int, chosen: int, score: int, gains: Sequence[int], missing: int) -> None:
        for next_at in range(at, len(seats) - missing + 1):
            gpu, is_first = seats[next_at]
            # A twin is taken only right after the twin before it.
            if next_at > at and not is_first:
                continue
            if missing == 1:
                found.append((score + gains[gpu], chosen | 1 << gpu))
            else:
                more = list(map(add, gains, terrain.scores[gpu]))
                grow(next_at + 1, chosen | 1 << gpu, score + gains[gpu], more, missing - 1)

    grow(0, 0, 0, alone, count)
    return found


def _alone(terrain: Terrain, free: int) -> list[int]:
    """What each GPU adds to the score of a set: the bonds it cuts to the free GPUs."""
    others = bits_of(free)
    return [-sum(row[gpu] for gpu in others) for row in terrain.bonds]


def _first_tied(scored: list[tuple[int, int]], graph: Graph, count: int) -> Iterator[int]:
    """The sets of the highest score that a ring passes through."""
    best = None
    for score, chosen in sorted(scored, reverse=True):
        if best not in (None, score):
            return
        if ring_in(graph, chosen, count) is not None:
            best = score
            yield chosen


def _improved(terrain: Terrain, graph: Graph, free: int, within: int, ring: int) -> int:
    """A ring, improved by exchanging one GPU at a time as long as the score grows."""
    alone = _alone(terrain, free)
    count = ring.bit_count()

    def gain(gpu: int, others: int) -> int:
        return alone[gpu] + sum(terrain.scores[gpu][other] for other in bits_of(others))

    for _ in range(count):
        swaps = [
            (gain(new, ring ^ 1 << old) - gain(old, ring ^ 1 << old), -old, -new)
            for old in bits_of(ring)
            for new in bits_of(within & ~ring)
        ]
        better = (ring ^ 1 << -old ^ 1 << -new for more, old, new in sorted(swaps, reverse=True) if more > 0)
        swapped = next((each for each in better if ring_in(graph, each, count) is not None), None)
        if swapped is None:
            break
        ring = swapped
    return ring
