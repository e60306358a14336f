"""Reading what is stored: frames of a stream in their order, sealed or open, here or elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from gpuyard_logger.core.frame import DamagedError, Frame, Packed, unpack
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.part import TAIL_BYTES, Place, footer_bytes, parse_footer
from gpuyard_logger.index import Index, Located

_RUN_BYTES = 1024 * 1024
_LOOKS = 3


class Blobs(Protocol):
    """Where segments lie. `holder` is the logger that has it; empty: object storage."""

    def read(self, segment: str, holder: str, offset: int, size_bytes: int) -> bytes:
        """Bytes of a segment; fewer at its end.

        Raises:
            FileNotFoundError: it is not there (any more).
            OSError: it can't be had now.

        """
        ...


class Damage(NamedTuple):
    """Lines that can't be read any more."""

    stream: Stream
    first_seq: int
    next_seq: int
    why: str


OpenFrames = Callable[[Stream, int], Iterator[Frame]]
"""Frames of a stream that are not sealed: `open_frames(stream, from_seq)`."""


class Library:
    """Used by one thread.

    Args:
        index: What is sealed.
        blobs: Where it lies.
        open_frames: What was not sealed when reading began. It must be older than what the index says: lines
            that moved from one to the other meanwhile are then met twice, and dropped once, never missed.
        on_damage: Told of lines that are left out.

    """

    def __init__(
        self, index: Index, blobs: Blobs, open_frames: OpenFrames, on_damage: Callable[[Damage], None]
    ) -> None:
        self.index = index
        self._blobs = blobs
        self._open_frames = open_frames
        self._on_damage = on_damage

    def frames(self, stream: Stream, from_seq: int = 0) -> Iterator[Frame]:
        """Frames from the one that holds a line on. They may begin before it, and overlap the one before."""
        next_seq = from_seq
        for frame in self._sealed(stream, from_seq):
            next_seq = max(next_seq, frame.next_seq)
            yield frame
        yield from self._open_frames(stream, next_seq)

    def _sealed(self, stream: Stream, from_seq: int) -> Iterator[Frame]:
        """A segment may go while it is read, since others took its place: then the index knows those."""
        next_seq = from_seq
        for look in range(_LOOKS):
            try:
                for part in self.index.parts(stream, next_seq):
                    for frame in self._of_part(stream, part, next_seq):
                        next_seq = frame.next_seq
                        yield frame
            except FileNotFoundError as error:
                if look == _LOOKS - 1:
                    raise OSError(f"segment is gone: {error}") from error
            else:
                return

    def _of_part(self, stream: Stream, part: Located, from_seq: int) -> Iterator[Frame]:
        try:
            places = self.places(part)
        except DamagedError as error:
            self._on_damage(Damage(stream, part.row.first_seq, part.row.next_seq, str(error)))
            return
        wanted = [place for place in places if place.entry.next_seq > from_seq]
        for run in _runs(wanted):
            yield from self._of_run(stream, part, run)

    def places(self, part: Located) -> list[Place]:
        """Where the frames of a part lie in it.

        Raises:
            DamagedError: its footer is not what was written.

        """
        size_bytes = part.row.size_bytes
        tail = self._read(part, max(size_bytes - TAIL_BYTES, 0), min(size_bytes, TAIL_BYTES))
        footer = footer_bytes(tail)
        if footer > size_bytes:
            raise DamagedError("the footer of the part is damaged")
        if footer > len(tail):
            tail = self._read(part, size_bytes - footer, footer)
        return parse_footer(tail[-footer:], size_bytes)

    def packed(self, part: Located) -> Iterator[Packed]:
        """The frames of a part as they lie there, unread.

        Raises:
            DamagedError: its footer is not what was written.

        """
        for run in _runs(self.places(part)):
            start = run[0].offset
            data = self._read(part, start, run[-1].offset + run[-1].entry.size_bytes - start)
            for offset, entry in run:
                yield Packed(entry, data[offset - start : offset - start + entry.size_bytes])

    def _of_run(self, stream: Stream, part: Located, run: Sequence[Place]) -> Iterator[Frame]:
        first, last = run[0], run[-1]
        data = self._read(part, first.offset, last.offset + last.entry.size_bytes - first.offset)
        for offset, entry in run:
            at = offset - first.offset
            try:
                frame = unpack(entry, data[at : at + entry.size_bytes])
            except DamagedError as error:
                self._on_damage(Damage(stream, entry.first_seq, entry.next_seq, str(error)))
            else:
                yield frame

    def _read(self, part: Located, offset: int, size_bytes: int) -> bytes:
        return self._blobs.read(part.segment, part.holder, part.row.offset + offset, size_bytes)


def _runs(places: Sequence[Place]) -> Iterator[list[Place]]:
    """Neighbouring frames that are fetched at once."""
    run: list[Place] = []
    size_bytes = 0
    for place in places:
        if run and size_bytes + place.entry.size_bytes > _RUN_BYTES:
            yield run
            run, size_bytes = [], 0
        run.append(place)
        size_bytes += place.entry.size_bytes
    if run:
        yield run
