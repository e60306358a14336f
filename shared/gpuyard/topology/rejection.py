"""Why other sets of GPUs were not taken, in words.

For each criterion the best set that it ruled out, the nearest miss first. Sets that differ by twins only
count as one. Where there are many sets, those that differ from the chosen one by one GPU stand for all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import combinations

from gpuyard.topology.ring import bits_of
from gpuyard.topology.search import PER_GB_S, Terrain, best_ring, last_criteria, sets_to_try

_MOST_SETS = 300
_MOST_EXCHANGES = 32


@dataclass(frozen=True, slots=True)
class RejectedSet:
    """A set that was not taken, and why, in one sentence for people."""

    gpus: tuple[int, ...]
    bottleneck_gb_s: float | None
    sum_gb_s: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Question:
    """A decision to explain: which sets were free to be taken."""

    terrain: Terrain
    free: int
    load: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A set and its criteria in their order, each the lower the better."""

    gpus: tuple[int, ...]
    rate: int
    total: int
    criteria: tuple[object, ...]


def rejected_sets(question: Question, chosen: int) -> Iterator[RejectedSet]:
    """The best set that each criterion ruled out; one that is as good only if there is no other.

    Better sets, which another policy has passed over, are not among them.
    """
    ours = _candidate(question, chosen)
    best: dict[int, _Candidate] = {}
    for rival in _rivals(question, chosen):
        theirs = _candidate(question, rival)
        if theirs.criteria < ours.criteria:
            continue
        decided_by = _first_difference(ours, theirs)
        if decided_by not in best or theirs.criteria < best[decided_by].criteria:
            best[decided_by] = theirs
    if len(best) > 1:
        best.pop(len(_WORDS) - 1, None)
    for decided_by, theirs in sorted(best.items(), reverse=True):
        linked = len(theirs.gpus) > 1
        yield RejectedSet(
            theirs.gpus,
            theirs.rate / PER_GB_S if linked else None,
            theirs.total / PER_GB_S if linked else None,
            _WORDS[decided_by](question, ours, theirs),
        )


def _candidate(question: Question, chosen: int) -> _Candidate:
    terrain, gpus = question.terrain, bits_of(chosen)
    rate, _ = best_ring(terrain, chosen, len(gpus))
    total = sum(terrain.rates[a][b] for a, b in combinations(gpus, 2))
    kept = sum(terrain.bonds[a][b] for a, b in combinations(gpus, 2))
    cut = sum(terrain.bonds[a][b] for a in gpus for b in bits_of(question.free & ~chosen))
    last = last_criteria(terrain, question.free, chosen, question.load)
    return _Candidate(gpus, rate, total, (-rate, -total, -kept, cut, *last))


def _rivals(question: Question, chosen: int) -> Iterable[int]:
    tried = sets_to_try(question.terrain, question.free, chosen.bit_count(), question.load, _MOST_SETS)
    if tried is None:
        return _exchanges(question, chosen)
    # Twins stand in for each other in the sets tried; an exchange shows the one of a higher load.
    others = {*tried, *(_exchanges(question, chosen) if question.load else ())} - {chosen}
    return others or _exchanges(question, chosen)


def _exchanges(question: Question, chosen: int) -> list[int]:
    """The sets that differ by one GPU and have the most bandwidth."""
    rates = question.terrain.rates

    def gain(exchange: tuple[int, int]) -> int:
        old, new = exchange
        return sum(rates[new][gpu] - rates[old][gpu] for gpu in bits_of(chosen ^ 1 << old))

    left = question.free & ~chosen
    exchanges = [(old, new) for old in bits_of(chosen) for new in bits_of(left)]
    best = nlargest(_MOST_EXCHANGES, exchanges, key=gain)
    return [chosen ^ 1 << old ^ 1 << new for old, new in best]


def _first_difference(ours: _Candidate, theirs: _Candidate) -> int:
    pairs = zip(ours.criteria, theirs.criteria, strict=True)
    return next(at for at, (mine, other) in enumerate(pairs) if mine != other)


def _slower(question: Question, ours: _Candidate, theirs: _Candidate) -> str:
    culprit = _weak_link(question.terrain, theirs.gpus, theirs.rate)
    return f"bottleneck {_gb_s(theirs.rate)} instead of {_gb_s(ours.rate)} GB/s: {culprit}"


def _less(question: Question, ours: _Candidate, theirs: _Candidate) -> str:
    culprit = _weak_link(question.terrain, theirs.gpus, 0)
    return f"as fast a ring, but {_gb_s(theirs.total)} instead of {_gb_s(ours.total)} GB/s in sum: {culprit}"


def _fewer_kept(question: Question, ours: _Candidate, theirs: _Candidate) -> str:
    sides = question.terrain.shape.sides
    spans, instead_of = (len({sides[gpu] for gpu in each.gpus}) for each in (theirs, ours))
    if spans > instead_of:
        return f"equal links, but spans {spans} sockets instead of {instead_of}"
    for tier in question.terrain.tiers:
        mine, other = (_inside(tier.graph, each.gpus) for each in (ours, theirs))
        if other < mine:
            return f"equal links, but {other} pairs of {tier.name} instead of {mine}"
    raise AssertionError("no tier has fewer pairs inside")


def _more_cut(question: Question, ours: _Candidate, theirs: _Candidate) -> str:
    for tier in question.terrain.tiers:
        mine, other = (_cut(tier.graph, question.free, each.gpus) for each in (ours, theirs))
        if len(other) > len(mine):
            return f"equal links, but breaks {_counted(tier.name, 'pair', other, len(mine))}"
    return "equal links, but takes more bandwidth away from the GPUs that stay free"


def _more_quads(question: Question, ours: _Candidate, theirs: _Candidate) -> str:
    for tier in question.terrain.tiers:
        mine, other = (_broken(tier.quads, question.free, each.gpus) for each in (ours, theirs))
        if len(other) > len(mine):
            return f"equal links, but breaks {_counted(tier.name, 'quad', other, len(mine))}"
    raise AssertionError("no tier has more broken quads")


def _busier(question: Question, ours: _Candidate, theirs: _Candidate) -> str:
    busiest = max(set(theirs.gpus) - set(ours.gpus), key=lambda gpu: (question.load[gpu], -gpu))
    return f"equal links, but GPU {busiest} is busier"


def _farther(question: Question, ours: _Candidate, theirs: _Candidate) -> str:
    return "equal links, but has no network card as near"


def _later(question: Question, ours: _Candidate, theirs: _Candidate) -> str:
    return "as good in every respect; of equals the lower indices are taken"


# In the order of the criteria.
_WORDS: tuple[Callable[[Question, _Candidate, _Candidate], str], ...] = (
    _slower,
    _less,
    _fewer_kept,
    _more_cut,
    _more_quads,
    _busier,
    _farther,
    _later,
)


def _weak_link(terrain: Terrain, gpus: Sequence[int], least: int) -> str:
    """The slowest link of a set that is not below a rate."""
    links = ((terrain.rates[a][b], a, b) for a, b in combinations(gpus, 2))
    rate, a, b = min(link for link in links if link[0] >= least)
    nvlinks = terrain.shape.nvlinks
    if not nvlinks[a][b] and any(map(any, nvlinks)):
        return f"{a}-{b} has no NVLink"
    return f"{a}-{b} is {terrain.shape.label(a, b)} at {_gb_s(rate)}"


def _inside(graph: Sequence[int], gpus: Sequence[int]) -> int:
    return sum(graph[a] >> b & 1 for a, b in combinations(gpus, 2))


def _cut(graph: Sequence[int], free: int, gpus: Sequence[int]) -> list[tuple[int, ...]]:
    rest = [gpu for gpu in bits_of(free) if gpu not in gpus]
    return [(min(a, b), max(a, b)) for a in gpus for b in rest if graph[a] >> b & 1]


def _broken(quads: Iterable[int], free: int, gpus: Sequence[int]) -> list[tuple[int, ...]]:
    free_quads = (bits_of(quad) for quad in quads if quad & free == quad)
    return [quad for quad in free_quads if 0 < len(set(quad) & set(gpus)) < len(quad)]


def _counted(kind: str, what: str, broken: Sequence[tuple[int, ...]], instead_of: int) -> str:
    if len(broken) == 1:
        return f"the {what} {'-'.join(map(str, broken[0]))} ({kind})"
    return f"{len(broken)} {what}s of {kind} instead of {instead_of}"


def _gb_s(kb_s: int) -> str:
    return f"{kb_s / PER_GB_S:.1f}"
