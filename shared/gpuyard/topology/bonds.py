"""What a pair of GPUs is worth to those who come later, so that a choice breaks as little as it can.

Pairs fall into kinds: NVLinks (the more the better), then PCIe levels, then one side of the machine. Pairs
are counted kind by kind, the best kind first: pairs of any NVLink, pairs of the best kind, of the best
two, and so on; bandwidth comes last. These counts are packed into one number per pair, the bond, so that
bonds just add up and compare in that order.

Of sets with equal links the one that keeps the most bonds inside comes first: a job across two sockets would
break both. Then the one that cuts the fewest: a pair is cut if a part of it is taken. So a single GPU
is one that has lost its partners already, and pairs come from the side where fewer are left.

Where that leaves a tie the quads count, in the same order: four GPUs of which every pair is of the kind.
Without them a pair would be taken across two whole quads of a cube mesh.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuyard.topology.ring import Graph, graph_of
from gpuyard.topology.shape import Matrix, Shape

# Above the number of pairs that any choice among 128 GPUs breaks, 64 times 64.
_COUNT = 1 << 13
_MOST_GPUS_WITH_QUADS = 16

_Kind = tuple[int, int, int]
_ANY_NVLINK: _Kind = (1, 0, 0)


@dataclass(frozen=True, slots=True)
class Tier:
    """The pairs of a kind and of better ones, and the quads of such pairs as masks."""

    name: str
    graph: Graph
    quads: tuple[int, ...]


def tiers_of(shape: Shape) -> tuple[Tier, ...]:
    """The tiers of a shape, the best kind first; pairs that all are alike tell nothing.

    Beyond 16 GPUs quads are left out: there are too many.
    """
    everyone = list(combinations(range(shape.size), 2))
    kinds = {pair: _kind(shape, *pair) for pair in everyone}
    tiers: dict[Graph, Tier] = {}
    for least in (_ANY_NVLINK, *sorted(set(kinds.values()), reverse=True)):
        edges = [pair for pair in everyone if kinds[pair] >= least]
        if not 0 < len(edges) < len(everyone):
            continue
        graph = graph_of(shape.size, edges)
        quads = _quads(graph) if shape.size <= _MOST_GPUS_WITH_QUADS else ()
        tiers.setdefault(graph, Tier(_name(shape, least, kinds), graph, quads))
    return tuple(tiers.values())


def bonds_of(tiers: Sequence[Tier], rates: Matrix[int]) -> Matrix[int]:
    """The bond of each pair, `[size][size]`; the last digit is its rate."""
    room = 1 + sum(map(sum, rates))

    def bond(a: int, b: int) -> int:
        packed = 0
        for tier in tiers:
            packed = packed * _COUNT + (tier.graph[a] >> b & 1)
        return packed * room + rates[a][b]

    size = len(rates)
    return tuple(tuple(bond(a, b) for b in range(size)) for a in range(size))


def _kind(shape: Shape, a: int, b: int) -> _Kind:
    return shape.nvlinks[a][b], shape.closeness(a, b), int(shape.sides[a] == shape.sides[b])


def _name(shape: Shape, least: _Kind, kinds: dict[tuple[int, int], _Kind]) -> str:
    """What to call pairs of at least this kind: `NVLink`, `NV2`, `PIX`, `NV18 on one socket`."""
    if least == _ANY_NVLINK:
        return "NVLink"
    label = next(_label(shape, *pair) for pair, kind in kinds.items() if kind == least)
    rest = [pair for pair, kind in kinds.items() if kind < least and _label(shape, *pair) == label]
    return f"{label} on one socket" if rest else label


def _label(shape: Shape, a: int, b: int) -> str:
    level = shape.levels[a][b]
    return f"{shape.label(a, b)} and {level}" if level and shape.nvlinks[a][b] else shape.label(a, b)


def _quads(graph: Graph) -> tuple[int, ...]:
    found = []
    for a, b in combinations(range(len(graph)), 2):
        if graph[a] >> b & 1:
            common = graph[a] & graph[b]
            ends = [gpu for gpu in range(b + 1, len(graph)) if common >> gpu & 1]
            found += [
                1 << a | 1 << b | 1 << c | 1 << d for c, d in combinations(ends, 2) if graph[c] >> d & 1
            ]
    return tuple(found)
