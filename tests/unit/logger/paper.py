"""A store on paper: sealed parts kept as they are, merged when told to; no disk, no bus."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gpuyard.contracts.log import LogBatch, LogLine, lines_of
from gpuyard.contracts.segment import Row
from gpuyard_logger.core.frame import Frame, Packed, unpack
from gpuyard_logger.core.gather import Gather, Round
from gpuyard_logger.core.layout import Layout, Sealed, Stream
from gpuyard_logger.core.merge import joined, unbroken
from gpuyard_logger.core.sequence import START, Position, cut


class Part(NamedTuple):
    """A part of a segment as a reader finds it."""

    stream: Stream
    row: Row
    frames: Sequence[Packed]


class PaperStore:
    """Segments by name, and what a logger would know of them."""

    def __init__(self) -> None:
        self.segments: dict[int, list[Part]] = {}
        self._names = 0

    def position(self, stream: Stream) -> Position:
        rows = [part.row for part in self._parts() if part.stream == stream]
        if not rows:
            return START
        return Position(max(row.next_seq for row in rows), any(row.ended for row in rows))

    def seal(self, round_: Round) -> None:
        self._add(round_.seal(0.0))

    def merge(self, names: Iterable[int]) -> None:
        """Make one of these."""
        chosen = [part for name in sorted(set(names)) for part in self.segments.pop(name)]
        by_stream: dict[Stream, list[Part]] = {}
        for part in sorted(chosen, key=lambda part: (part.stream, part.row.first_seq)):
            by_stream.setdefault(part.stream, []).append(part)
        self._add(
            Sealed(
                stream,
                joined(packed for part in group for packed in part.frames),
                max(part.row.next_seq for part in group),
                any(part.row.ended for part in group),
                0.0,
            )
            for stream, parts in by_stream.items()
            for group in unbroken(parts, lambda part: part.row)
        )

    def lines(self, stream: Stream, open_parts: Gather) -> list[LogLine]:
        """As a reader goes: parts by their first line, cut by number."""
        found: list[LogLine] = []
        next_seq = 0
        parts = [part for part in self._parts() if part.stream == stream and part.row.next_seq > 0]
        for part in sorted(parts, key=lambda part: part.row.first_seq):
            if part.row.next_seq > next_seq:
                frames = [unpack(*packed) for packed in part.frames]
                next_seq = _read(stream, frames, next_seq, found)
        view = open_parts.view(stream.job)
        _read(stream, view.frames(stream, next_seq), next_seq, found)
        return found

    def _parts(self) -> list[Part]:
        return [part for parts in self.segments.values() for part in parts]

    def _add(self, sealed: Iterable[Sealed]) -> None:
        parts = [one._replace(frames=list(one.frames)) for one in sealed]
        layout = Layout()
        assert sum(map(len, layout.pieces(parts))) == layout.size_bytes
        if parts:
            self._names += 1
            self.segments[self._names] = [
                Part(one.stream, row, list(one.frames)) for one, row in zip(parts, layout.rows, strict=True)
            ]


def _read(stream: Stream, frames: Iterable[Frame], next_seq: int, found: list[LogLine]) -> int:
    for frame in frames:
        batch = LogBatch(
            stream.job, stream.attempt, stream.rank, frame.first_seq, frame.next_seq, tuple(frame.chunks())
        )
        if new := cut(batch, next_seq):
            found.extend(lines_of(new))
            next_seq = new.next_seq
    return next_seq


def seqs_of(lines: Iterable[LogLine]) -> list[int]:
    return [line.seq for line in lines]
