"""What a pair of GPUs is worth to those who come later, so that a choice breaks as little as it can.

Pairs fall into kinds: NVLinks (the more the better), then PCIe levels, then one side of the machine. What a
choice breaks is counted kind by kind, the best kind first: pairs of any NVLink, pairs of the best kind,
of the best two, and so on; bandwidth comes last. A broken pair is one of which a part is taken. These
counts are packed into one number per pair, the bond, so that the bonds cut by a choice just add up and
compare in that order.

Where that leaves a tie the quads count, in the same order: four GPUs of which every pair is of the kind.
Without them a pair would be taken across two whole quads of a cube mesh.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuyard.topology.ring import graph_of
from gpuyard.topology.shape import Matrix, Shape

# Above the number of pairs that any choice among 128 GPUs breaks, 64 times 64.
_COUNT = 1 << 13
_MOST_GPUS_WITH_QUADS = 16

_Kind = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Bonds:
    """`pairs` are the bonds, `[size][size]`; `quads` the masks of quads for each kind, the best first."""

    pairs: Matrix[int]
    quads: tuple[tuple[int, ...], ...]
    most: int


def bonds_of(shape: Shape, rates: Matrix[int]) -> Bonds:
    """The bonds of a shape. Beyond 16 GPUs quads are left out: there are too many."""
    tiers = _tiers(shape)
    room = 1 + sum(map(sum, rates))

    def bond(a: int, b: int) -> int:
        packed = 0
        for tier in tiers:
            packed = packed * _COUNT + (tier[a] >> b & 1)
        return packed * room + rates[a][b]

    size = shape.size
    pairs = tuple(tuple(bond(a, b) for b in range(size)) for a in range(size))
    few = size <= _MOST_GPUS_WITH_QUADS
    return Bonds(pairs, tuple(_quads(tier) for tier in tiers) if few else (), 1 + sum(map(sum, pairs)))


def _tiers(shape: Shape) -> list[Sequence[int]]:
    """Graphs of the pairs of any NVLink, then of at least each kind; those of all pairs tell nothing."""
    everyone = list(combinations(range(shape.size), 2))
    kinds = {pair: _kind(shape, *pair) for pair in everyone}
    leasts: list[_Kind] = [(1, 0, 0), *sorted(set(kinds.values()), reverse=True)]
    graphs: list[Sequence[int]] = []
    for least in leasts:
        edges = [pair for pair in everyone if kinds[pair] >= least]
        graph = graph_of(shape.size, edges)
        if graph not in graphs and 0 < len(edges) < len(everyone):
            graphs.append(graph)
    return graphs


def _kind(shape: Shape, a: int, b: int) -> _Kind:
    return shape.nvlinks[a][b], shape.closeness(a, b), int(shape.sides[a] == shape.sides[b])


def _quads(graph: Sequence[int]) -> tuple[int, ...]:
    found = []
    for a, b in combinations(range(len(graph)), 2):
        if graph[a] >> b & 1:
            common = graph[a] & graph[b]
            ends = [gpu for gpu in range(b + 1, len(graph)) if common >> gpu & 1]
            found += [
                1 << a | 1 << b | 1 << c | 1 << d for c, d in combinations(ends, 2) if graph[c] >> d & 1
            ]
    return tuple(found)
