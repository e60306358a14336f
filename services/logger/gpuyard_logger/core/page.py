"""A page of history: which lines answer a query, oldest first over all ranks, no more than fit.

Ranks are merged by time, piece by piece, so that a reader of several ranks sees them side by side. Inside a
rank the order is always that of its numbers, even if its clock went backwards.
Cost: O(ranks + pieces log ranks), and reading what is looked at.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from msgspec.structs import replace

from gpuyard.contracts.log import LogBatch, LogPage, LogQuery, Settling
from gpuyard.linefilter import Filter, filter_of
from gpuyard_logger.core.frame import Frame
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.scan import Scan, Step, steps_back
from gpuyard_logger.core.sequence import Position, first_line, head, size_bytes

NEXT_BYTES = 13
"""What one rank takes in `LogPage.next`, at most."""
SETTLING_BYTES = 32
MOST_SCANNED_BYTES = 64 * 1024 * 1024
"""Of text, for one page."""
_MOST_OPEN = 64
"""Ranks whose frames are in memory at a time. Others are read again when it is their turn."""


class Output(Protocol):
    """Stored output of one attempt: frames of a rank in their order, and backwards."""

    def onward(self, rank: int, from_seq: int) -> Iterator[Frame]: ...

    def back(self, rank: int, before_seq: int) -> Iterator[Frame]: ...


def assemble(
    query: LogQuery,
    attempt: int,
    positions: Mapping[int, Position],
    output: Output,
    *,
    through_seq: int,
    is_late: Callable[[], bool] = lambda: False,
) -> LogPage:
    """Answer a query about one attempt, given how far each of its ranks is stored.

    Args:
        is_late: Whether it took long enough: the page ends then, but not before it made progress.

    """
    wanted = positions.keys() if query.ranks is None else positions.keys() & set(query.ranks)
    ranks = sorted(wanted)
    draft = _Draft(query, attempt, {rank: positions[rank] for rank in ranks}, output, is_late)
    complete = draft.settle() and draft.fill()
    return LogPage(
        attempt=attempt,
        batches=tuple(draft.batches()),
        next=tuple(sorted(draft.next.items())),
        ended=tuple(rank for rank in ranks if positions[rank].ended),
        through_seq=through_seq,
        complete=complete,
        scanned_bytes=draft.scanned_bytes,
        settling=draft.settling,
    )


class _Draft:
    """A page while it is filled."""

    def __init__(
        self,
        query: LogQuery,
        attempt: int,
        positions: Mapping[int, Position],
        output: Output,
        is_late: Callable[[], bool],
    ) -> None:
        self.next: dict[int, int] = {}
        self.scanned_bytes = 0
        self.settling: Settling | None = None
        self._query = query
        self._attempt = attempt
        self._filter: Filter = filter_of(query)
        self._positions = positions
        self._output = output
        self._is_late = is_late
        self._room_bytes = query.max_bytes
        self._taken: list[list[LogBatch]] = []
        self._starts: dict[int, int] = {}
        """Where ranks begin that have lines to give."""
        self._open: OrderedDict[int, Iterator[Step]] = OrderedDict()

    def batches(self) -> Iterator[LogBatch]:
        """What was taken; neighbours as one."""
        for run in self._taken:
            chunks = tuple(chunk for batch in run for chunk in batch.chunks)
            yield replace(run[0], next_seq=run[-1].next_seq, chunks=chunks)

    # Where to begin

    def settle(self) -> bool:
        """Find where each rank begins; a cursor for those with nothing to give. False: no room or no time."""
        cursor = dict(self._query.after)
        for rank, position in self._positions.items():
            start = cursor[rank] if rank in cursor else self._start(rank, position)
            if start is None:
                self._point_to_starts(cursor)
                return False
            if start < position.next_seq:
                self._starts[rank] = start
            elif rank not in cursor and not self._point(rank, start):
                return False
        return True

    def _start(self, rank: int, position: Position) -> int | None:
        """Where a rank without a cursor begins; None: it takes more than this page."""
        tail = self._query.tail
        if tail is None:
            return 0
        if tail == 0 or (self._filter.is_open and not self._query.grep):
            return max(0, position.next_seq - tail)
        begun = self._query.settling
        if begun is None or begun.rank != rank:
            begun = Settling(rank, position.next_seq, tail, position.next_seq)
        for step in steps_back(lambda seq: self._output.back(rank, seq), self._filter, begun):
            self.scanned_bytes += step.scanned_bytes
            if step.cursor is None and self._is_enough():
                self.settling = step.settling
                return None
            cursor = step.cursor
        return cursor

    def _point_to_starts(self, cursor: Mapping[int, int]) -> None:
        """So that they need not be found again."""
        for rank, start in self._starts.items():
            if rank not in cursor and not self._point(rank, start):
                return

    # What to give

    def fill(self) -> bool:
        """Take lines, oldest first, until nothing is left or there is enough. False: there is more."""
        heap: list[tuple[float, int, Step]] = []
        for rank, start in self._starts.items():
            self._push(heap, rank, start)
        while heap:
            _, rank, step = heapq.heappop(heap)
            if not self._take(rank, step):
                return False
            if self._is_enough():
                self._take_progress(heap)
                return False
            self._push(heap, rank, step.next_seq)
        return True

    def _push(self, heap: list[tuple[float, int, Step]], rank: int, from_seq: int) -> None:
        steps = self._open.pop(rank, None) or self._steps(rank, from_seq)
        if step := next(steps, None):
            self._open[rank] = steps
            if len(self._open) > _MOST_OPEN:
                self._open.popitem(last=False)
            self.scanned_bytes += step.scanned_bytes
            heapq.heappush(heap, (step.at_s, rank, step))

    def _steps(self, rank: int, from_seq: int) -> Iterator[Step]:
        stream = Stream(self._query.job, self._attempt, rank)
        scan = Scan(stream, lambda seq: self._output.onward(rank, seq), self._filter, from_seq)
        return scan.steps(self._positions[rank])

    def _take(self, rank: int, step: Step) -> bool:
        """Add a step, or what fits of it. False: the page is full."""
        if step.batch is None:
            return self._point(rank, step.next_seq)
        part = head(step.batch, self._room_bytes)
        if not part.chunks and not self.next:
            part = first_line(step.batch)
        if not part.chunks:
            return False
        self._add(part)
        return self._point(rank, part.next_seq) and part.next_seq == step.next_seq

    def _add(self, batch: LogBatch) -> None:
        last = self._taken[-1][-1] if self._taken else None
        if last and (last.rank, last.next_seq) == (batch.rank, batch.first_seq):
            self._taken[-1].append(batch)
        else:
            self._taken.append([batch])
        self._room_bytes -= size_bytes(batch)

    def _take_progress(self, heap: list[tuple[float, int, Step]]) -> None:
        """What was looked at in vain need not be looked at again."""
        for _, rank, step in heap:
            if step.batch is None and not self._point(rank, step.next_seq):
                return

    def _point(self, rank: int, seq: int) -> bool:
        """Move a rank's cursor. False: the page is full now."""
        self._room_bytes -= NEXT_BYTES * (rank not in self.next)
        self.next[rank] = seq
        return self._room_bytes > 0

    def _is_enough(self) -> bool:
        return self.scanned_bytes >= MOST_SCANNED_BYTES or self._is_late()
