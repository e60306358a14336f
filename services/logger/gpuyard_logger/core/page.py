"""A page of history: which lines answer a query, oldest first over all ranks, no more than fit.

Ranks are merged by time as far as their batches show it, so that a reader of several ranks sees them side by
side. Inside a rank the order is always that of its numbers, even if its clock went backwards.
Cost: O(ranks + batches log ranks).
"""

import heapq
from collections.abc import Callable, Iterator, Mapping

from gpuyard.contracts.log import LogBatch, LogPage, LogQuery
from gpuyard_logger.core.sequence import Position, first_line, head, size_bytes

NEXT_BYTES = 13
"""What one rank takes in `LogPage.next`, at most."""

Read = Callable[[int, int], Iterator[LogBatch]]
"""Stored batches of a rank from a line on: `read(rank, from_seq)`."""


def assemble(
    query: LogQuery, attempt: int, positions: Mapping[int, Position], read: Read, through_seq: int
) -> LogPage:
    """Answer a query about one attempt, given how far each of its ranks is stored."""
    wanted = positions.keys() if query.ranks is None else positions.keys() & set(query.ranks)
    ranks = sorted(wanted)
    draft = _Draft(query.max_bytes)
    complete = draft.settle(query, {rank: positions[rank] for rank in ranks}) and draft.fill(read)
    return LogPage(
        attempt=attempt,
        batches=tuple(draft.batches),
        next=tuple(sorted(draft.next.items())),
        ended=tuple(rank for rank in ranks if positions[rank].ended),
        through_seq=through_seq,
        complete=complete,
    )


def first_wanted(cursor: Mapping[int, int], tail: int | None, rank: int, position: Position) -> int:
    """The line to begin with. A rank with a cursor goes on there; `tail` is for ranks without one."""
    if rank in cursor:
        return cursor[rank]
    return 0 if tail is None else max(0, position.next_seq - tail)


class _Draft:
    """A page while it is filled."""

    def __init__(self, room_bytes: int) -> None:
        self.batches: list[LogBatch] = []
        self.next: dict[int, int] = {}
        self._room_bytes = room_bytes
        self._due: list[tuple[int, int]] = []

    def settle(self, query: LogQuery, positions: Mapping[int, Position]) -> bool:
        """Sort out which ranks have lines to give; a cursor for each other. False: no room for all."""
        cursor = dict(query.after)
        for rank, position in positions.items():
            start = first_wanted(cursor, query.tail, rank, position)
            if start < position.next_seq:
                self._due.append((rank, start))
            elif rank not in cursor and not self._point(rank, start):
                return False
        return True

    def fill(self, read: Read) -> bool:
        """Take batches, oldest first, until nothing is left or the page is full. False: it is full."""
        sources = {rank: read(rank, start) for rank, start in self._due}
        heap: list[tuple[float, int, LogBatch]] = []
        for rank, source in sources.items():
            _push(heap, rank, source)
        while heap:
            _, rank, batch = heapq.heappop(heap)
            if not self._take(batch):
                return False
            _push(heap, rank, sources[rank])
        return True

    def _take(self, batch: LogBatch) -> bool:
        """Add the batch, or what fits of it. False: there is a rest."""
        part = head(batch, self._room_bytes)
        if not part.chunks and batch.chunks and not self.next:
            part = first_line(batch)
        if not part.chunks and batch.chunks:
            return False
        self.batches.append(part)
        self._room_bytes -= size_bytes(part)
        return self._point(batch.rank, part.next_seq) and part.next_seq == batch.next_seq

    def _point(self, rank: int, seq: int) -> bool:
        """Move a rank's cursor. False: the page is full now."""
        self._room_bytes -= NEXT_BYTES * (rank not in self.next)
        self.next[rank] = seq
        return self._room_bytes > 0


def _push(heap: list[tuple[float, int, LogBatch]], rank: int, source: Iterator[LogBatch]) -> None:
    batch = next(source, None)
    if batch is not None:
        at_s = batch.chunks[0].at_s if batch.chunks else 0.0
        heapq.heappush(heap, (at_s, rank, batch))
