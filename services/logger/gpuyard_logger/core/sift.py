"""What of a frame a filter wants, and the wanted lines as batches.

A pattern runs over the text of a frame in one piece: a frame without a match costs no more than that. Only
around a match the table of chunks is read.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import takewhile
from typing import NamedTuple

from gpuyard.contracts.log import LogBatch, LogChunk
from gpuyard.linefilter import Filter, Pattern
from gpuyard_logger.core.frame import Frame
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.spans import Span, Spans, common, joined

PIECE_BYTES = 16 * 1024
PIECE_S = 1.0
"""Ranks are merged by time piece by piece, so a piece must not take long."""


class Numbered(NamedTuple):
    """A chunk, and the numbers of its lines."""

    first: int
    after: int
    chunk: LogChunk


def matching(frame: Frame, wanted: Filter) -> Spans:
    """The lines that pass and hold the pattern, if there is one."""
    pattern = wanted.pattern
    if pattern is None:
        return passing(frame, wanted)
    found = joined(Span(seq, seq + 1) for seq in _found(frame, pattern))
    return common(found, passing(frame, wanted)) if found else found


def passing(frame: Frame, wanted: Filter) -> Spans:
    """The lines of the wanted stream and time."""
    if wanted.is_open:
        return joined([Span(frame.first_seq, frame.next_seq)])
    return joined(_passing(frame, wanted))


def pieces(stream: Stream, frame: Frame, spans: Sequence[Span]) -> Iterator[LogBatch]:
    """These lines of a frame, in batches small enough to be merged by time."""
    piece: list[Numbered] = []
    size_bytes = 0
    for numbered in _cut(frame, spans):
        if piece and (size_bytes >= PIECE_BYTES or _parts(piece, numbered)):
            yield _batch(stream, piece)
            piece, size_bytes = [], 0
        piece.append(numbered)
        size_bytes += len(numbered.chunk.data)
    if piece:
        yield _batch(stream, piece)


def _parts(piece: Sequence[Numbered], coming: Numbered) -> bool:
    """Whether it can't go into the same piece: numbers are left out between, or it is much later."""
    return coming.first != piece[-1].after or abs(coming.chunk.at_s - piece[0].chunk.at_s) > PIECE_S


def _batch(stream: Stream, piece: Sequence[Numbered]) -> LogBatch:
    chunks = tuple(numbered.chunk for numbered in piece)
    return LogBatch(stream.job, stream.attempt, stream.rank, piece[0].first, piece[-1].after, chunks)


def _found(frame: Frame, pattern: Pattern) -> Iterator[int]:
    if frame.text.count(b"\n") == frame.next_seq - frame.first_seq:
        yield from pattern.numbers(frame.text, frame.first_seq)
        return
    for first, _, chunk in _cut(frame, [Span(frame.first_seq, frame.next_seq)]):
        yield from pattern.numbers(chunk.data, first)  # somewhere a line ends without a newline


def _passing(frame: Frame, wanted: Filter) -> Iterator[Span]:
    seq = frame.first_seq
    for mark in frame.marks:
        if wanted.passes(mark.stream, mark.at_s):
            yield Span(seq, seq + mark.lines)
        seq += mark.lines


def _cut(frame: Frame, spans: Iterable[Span]) -> Iterator[Numbered]:
    """What of the frame's chunks lies in the spans."""
    waiting = deque(spans)
    seq, at = frame.first_seq, 0
    for mark in frame.marks:
        after, end = seq + mark.lines, at + mark.size_bytes
        while waiting and waiting[0].after <= seq:
            waiting.popleft()
        if not waiting:
            return
        if waiting[0].first < after:
            chunk = LogChunk(mark.stream, mark.at_s, frame.text[at:end])
            yield from _inside(Numbered(seq, after, chunk), waiting)
        seq, at = after, end


def _inside(whole: Numbered, spans: Iterable[Span]) -> Iterator[Numbered]:
    """The lines of a chunk that lie in the spans."""
    lines: list[bytes] = []
    for first, after in takewhile(lambda span: span.first < whole.after, spans):
        if first <= whole.first and after >= whole.after:
            yield whole
            return
        lines = lines or BytesIO(whole.chunk.data).readlines()
        begin, end = max(first, whole.first), min(after, whole.after)
        data = b"".join(lines[begin - whole.first : end - whole.first])
        yield Numbered(begin, end, LogChunk(whole.chunk.stream, whole.chunk.at_s, data))
