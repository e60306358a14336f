"""Rings: a collective runs at the slowest link of the ring through its GPUs.

A ring visits every GPU of a set once and returns. The best one's slowest link is one of the set's own
rates, so it is found by a search over them; whether a ring of links of at least that rate exists is
decided by walking the graph of those links, remembering what was visited where a walk came to a dead
end. That is exact. It takes microseconds on the graphs of real machines, and at most `n 2^n` steps.

Sets of GPUs are bit masks. A graph is a sequence of masks: the peers of each GPU.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

Graph = tuple[int, ...]

_EXACT_GPUS = 16
# Never reached by `_EXACT_GPUS`; larger graphs are given up after so many dead ends.
_DEAD_ENDS = 4096


def ring_in(graph: Graph, within: int, length: int) -> int | None:
    """The GPUs of some ring of this length; None if there is none.

    A ring of two is a link, a ring of one is any GPU. Exact for up to 16 GPUs; a ring among more may be
    missed if it is hard to find.
    """
    links = min(length - 1, 2)
    left = core(graph, within, links)
    while left.bit_count() >= length:
        first = left & -left
        reachable = _reachable(graph, left, first)
        if reachable.bit_count() >= length:
            found = _Walk(graph, first, length, reachable.bit_count()).closed(reachable ^ first)
            if found is not None:
                return found
        left = core(graph, left ^ first, links)
    return None


def core(graph: Graph, within: int, links: int) -> int:
    """What remains of a set after leaving out, again and again, GPUs with fewer links to the others."""
    changed = True
    while changed:
        changed = False
        for gpu in bits_of(within):
            if (graph[gpu] & within).bit_count() < links:
                within ^= 1 << gpu
                changed = True
    return within


def graph_of(size: int, edges: Iterable[tuple[int, int]]) -> Graph:
    """The peers of each GPU."""
    graph = [0] * size
    for a, b in edges:
        graph[a] |= 1 << b
        graph[b] |= 1 << a
    return tuple(graph)


@lru_cache(maxsize=8192)
def bits_of(mask: int) -> tuple[int, ...]:
    """The indices in a bit mask, ascending."""
    return tuple(index for index in range(mask.bit_length()) if mask >> index & 1)


def mask_of(gpus: Iterable[int] | int) -> int:
    """The bit mask of these indices; a mask is one already."""
    if isinstance(gpus, int):
        return gpus
    mask = 0
    for gpu in gpus:
        mask |= 1 << gpu
    return mask


def _reachable(graph: Graph, within: int, start: int) -> int:
    seen, edge = start, start
    while edge:
        near = 0
        for gpu in bits_of(edge):
            near |= graph[gpu]
        edge = near & within & ~seen
        seen |= edge
    return seen


class _Walk:
    """All walks from one GPU, depth first."""

    def __init__(self, graph: Graph, first: int, length: int, size: int) -> None:
        self._graph = graph
        self._first = first
        self._length = length
        self._last = graph[first.bit_length() - 1] if length > 2 else -1
        self._dead: set[tuple[int, int]] = set()
        self._patience = _DEAD_ENDS if size > _EXACT_GPUS else size << size

    def closed(self, left: int) -> int | None:
        """The GPUs of a ring through the first one and some of those left."""
        return self._on(self._first.bit_length() - 1, left, self._length - 1, self._first)

    def _on(self, end: int, left: int, steps: int, seen: int) -> int | None:
        if not steps:
            return seen
        if (end, left) in self._dead or len(self._dead) > self._patience:
            return None
        if not self._is_stuck(end, left, steps):
            for step in self._options(self._graph[end] & left & (self._last if steps == 1 else -1), left):
                found = self._on(step, left ^ 1 << step, steps - 1, seen | 1 << step)
                if found is not None:
                    return found
        self._dead.add((end, left))
        return None

    def _options(self, steps: int, left: int) -> Iterator[int]:
        """One of each kind of GPUs from which the same ones remain to be reached."""
        tried = set()
        for gpu in bits_of(steps):
            ways = self._graph[gpu] & (left | self._first)
            if ways not in tried and ways | 1 << gpu not in tried:
                tried |= {ways, ways | 1 << gpu}
                yield gpu

    def _is_stuck(self, end: int, left: int, steps: int) -> bool:
        """Whether a GPU that is still to be passed has no way in and out: all must be if none is to spare."""
        if self._length < 3 or steps < left.bit_count():
            return False
        open_ends = left | 1 << end | self._first
        return any((self._graph[gpu] & open_ends).bit_count() < 2 for gpu in bits_of(left))
