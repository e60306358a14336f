"""The choice of GPUs by trying everything: what the search is checked against. Shares no code with it."""

from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise, permutations

from gpuyard.topology.shape import Shape

Rates = Sequence[Sequence[float]]
Worth = tuple[float, float]


def ring_bottleneck(gb_s: Rates, gpus: Sequence[int]) -> float:
    if len(gpus) == 2:
        return gb_s[gpus[0]][gpus[1]]
    first, *others = gpus
    tours = ((first, *order, first) for order in permutations(others) if order[0] < order[-1])
    return max(min(gb_s[a][b] for a, b in pairwise(tour)) for tour in tours)


def pair_sum(gb_s: Rates, gpus: Iterable[int]) -> float:
    return round(sum(gb_s[a][b] for a, b in combinations(gpus, 2)), 6)


def worth(gb_s: Rates, gpus: Sequence[int]) -> Worth:
    return ring_bottleneck(gb_s, gpus), pair_sum(gb_s, gpus)


def all_worths(gb_s: Rates) -> dict[int, Worth]:
    """Bottleneck and sum of every set of at least two GPUs, by mask."""
    size = len(gb_s)
    sets = (gpus for count in range(2, size + 1) for gpus in combinations(range(size), count))
    return {sum(1 << gpu for gpu in gpus): worth(gb_s, gpus) for gpus in sets}


def best_worths(worths: dict[int, Worth], free: int) -> dict[int, Worth]:
    """The best bottleneck, and the best sum among ties, by number of GPUs."""
    best: dict[int, Worth] = {}
    chosen = free
    while chosen:
        if chosen in worths:
            count = chosen.bit_count()
            best[count] = max(best.get(count, (-1.0, -1.0)), worths[chosen])
        chosen = (chosen - 1) & free
    return best


def damage(shape: Shape, free: Sequence[int], chosen: Sequence[int]) -> list[int]:
    """Pairs inside, less; pairs broken; quads broken. Of any NVLink, of the best kind, of the best two ..."""
    rest = [gpu for gpu in free if gpu not in chosen]
    kinds = {
        (a, b): (shape.nvlinks[a][b], shape.closeness(a, b), shape.sides[a] == shape.sides[b])
        for a in range(shape.size)
        for b in range(shape.size)
        if a != b
    }
    leasts = [(1, 0, False), *sorted(set(kinds.values()), reverse=True)]
    inside = [-sum(kinds[pair] >= least for pair in combinations(chosen, 2)) for least in leasts]
    pairs = [sum(kinds[a, b] >= least for a in chosen for b in rest) for least in leasts]
    quads = [
        sum(
            0 < len(set(quad) & set(chosen)) < 4
            and all(kinds[pair] >= least for pair in combinations(quad, 2))
            for quad in combinations(free, 4)
        )
        for least in leasts
    ]
    return inside + pairs + quads
