"""What a rank's output holds for a query: forward for its lines, backward for the beginning of a tail.

With lines around matches, a line is settled once all lines were looked at that could make it wanted. Frames
whose lines are given then may have to be read again; keeping them would cost more, since lines may be long.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuyard.contracts.log import LogBatch, Settling
from gpuyard.linefilter import Filter
from gpuyard_logger.core.frame import Frame
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.sequence import Position
from gpuyard_logger.core.sift import matching, passing, pieces
from gpuyard_logger.core.spans import Span, Spans, clipped, common, widened

Frames = Callable[[int], Iterator[Frame]]
"""Frames of a rank, from the one that holds a line on; or backwards, from the one that holds the line before.

They may begin before it, overlap, and leave lines out.
"""


class Step(NamedTuple):
    """Lines up to `next_seq` are settled: these are given, others not wanted."""

    at_s: float
    next_seq: int
    batch: LogBatch | None
    scanned_bytes: int


class Scan:
    """Looks through a rank's output, from a line on to the end of what is stored."""

    def __init__(self, stream: Stream, frames: Frames, wanted: Filter, from_seq: int) -> None:
        self._stream = stream
        self._frames = frames
        self._wanted = wanted
        self._settled = from_seq
        self._seen = max(0, from_seq - wanted.reach)
        self._hits: Spans = []
        """Matches that may still make lines wanted."""
        self._at_s = 0.0
        self._scanned_bytes = 0

    def steps(self, position: Position) -> Iterator[Step]:
        """Each step settles at least one line; the last one all that can be settled."""
        for frame in self._frames(self._seen):
            self._look_at(frame)
            yield from self._settle(self._settled_by(self._seen), (frame,))
        end = max(position.next_seq, self._seen)
        yield from self._settle(end if position.ended else self._settled_by(end), ())

    def _look_at(self, frame: Frame) -> None:
        self._hits += clipped(matching(frame, self._wanted), self._seen, frame.next_seq)
        self._seen = max(self._seen, frame.next_seq)
        self._at_s = next((mark.at_s for mark in frame.marks), self._at_s)
        self._scanned_bytes += len(frame.text)

    def _settled_by(self, end: int) -> int:
        """How far lines are settled when all before `end` were looked at."""
        reach = self._wanted.reach
        wanted = self._hits[-1].after + reach if self._hits else 0
        return max(end - reach, min(end, wanted))

    def _settle(self, until: int, at_hand: Sequence[Frame]) -> Iterator[Step]:
        if until <= self._settled:
            return
        reach = self._wanted.reach
        spans = clipped(widened(self._hits, reach), self._settled, until)
        next_seq = self._settled
        for batch in self._batches(spans, at_hand):
            next_seq = batch.next_seq
            yield Step(batch.chunks[0].at_s, next_seq, batch, self._looked_at())
        self._settled = until
        self._hits = [hit for hit in self._hits if hit.after + reach > until]
        if next_seq < until:
            yield Step(self._at_s, until, None, self._looked_at())

    def _batches(self, spans: Sequence[Span], at_hand: Sequence[Frame]) -> Iterator[LogBatch]:
        if not spans:
            return
        seen, after = spans[0].first, spans[-1].after
        is_at_hand = any(frame.first_seq <= seen for frame in at_hand)
        for frame in at_hand if is_at_hand else self._frames(seen):
            inside = clipped(spans, seen, frame.next_seq)
            yield from pieces(self._stream, frame, common(inside, passing(frame, self._wanted)))
            seen = max(seen, frame.next_seq)
            if seen >= after:
                return

    def _looked_at(self) -> int:
        """Bytes since the last step."""
        scanned_bytes, self._scanned_bytes = self._scanned_bytes, 0
        return scanned_bytes


class StepBack(NamedTuple):
    """How far the search for a tail's beginning has come; `cursor` once it is found."""

    settling: Settling
    cursor: int | None
    scanned_bytes: int


def steps_back(frames: Frames, wanted: Filter, settling: Settling) -> Iterator[StepBack]:
    """Look for the beginning of a tail; the last step has found it."""
    for frame in frames(settling.seq):
        spans = clipped(matching(frame, wanted), 0, settling.seq)
        settling = _counted(settling, spans, min(frame.first_seq, settling.seq))
        scanned_bytes = len(frame.text)
        if not settling.lines:
            break
        yield StepBack(settling, None, scanned_bytes)
    else:
        scanned_bytes = 0
    yield StepBack(settling, max(0, settling.begin - wanted.reach), scanned_bytes)


def _counted(settling: Settling, spans: Spans, seq: int) -> Settling:
    lines, begin = settling.lines, settling.begin
    while spans and lines:
        first, after = spans.pop()
        taken = min(lines, after - first)
        lines, begin = lines - taken, after - taken
    return replace(settling, seq=seq, lines=lines, begin=begin)
