"""Reading what is stored: frames of a stream in their order, sealed or open, here or elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from gpuyard_logger.core.frame import DamagedError, Frame, Packed, unpack
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.part import TAIL_BYTES, Place, footer_bytes, parse_footer
from gpuyard_logger.index import Index, Located

_FIRST_RUN_BYTES = 64 * 1024
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
Times = Callable[[float, float], bool]
"""Whether lines read between these times are wanted: parts and frames without any are not fetched."""


def any_time(_first_at_s: float, _last_at_s: float) -> bool:
    """Everything is wanted."""
    return True


def nothing_open(_stream: Stream, _from_seq: int) -> Iterator[Frame]:
    """For who works on sealed output alone."""
    return iter(())


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

    def frames(self, stream: Stream, from_seq: int = 0, times: Times = any_time) -> Iterator[Frame]:
        """Frames from the one that holds a line on. They may begin before it, and overlap the one before."""
        next_seq = from_seq
        for frame in self._sealed(stream, from_seq, times):
            next_seq = max(next_seq, frame.next_seq)
            yield frame
        yield from self._open_frames(stream, next_seq)

    def frames_back(self, stream: Stream, before_seq: int, times: Times = any_time) -> Iterator[Frame]:
        """Frames backwards from the one that holds the line before this one. They may reach beyond it."""
        next_seq = before_seq
        for frame in reversed(list(self._open_frames(stream, 0))):
            if frame.first_seq < next_seq:
                next_seq = frame.first_seq
                yield frame
        yield from self._again(
            lambda seq, is_last: self._parts_back(stream, seq, times, is_last), next_seq, _first
        )

    def _sealed(self, stream: Stream, from_seq: int, times: Times) -> Iterator[Frame]:
        return self._again(lambda seq, is_last: self._parts(stream, seq, times, is_last), from_seq, _next)

    def _again(
        self, read: Callable[[int, bool], Iterator[Frame]], seq: int, end: Callable[[Frame], int]
    ) -> Iterator[Frame]:
        """Segments may go while they are read, since others took their place: then the index knows those.

        One that is still missing at the last look is lost.
        """
        for look in range(_LOOKS):
            try:
                for frame in read(seq, look == _LOOKS - 1):
                    seq = end(frame)
                    yield frame
            except FileNotFoundError as error:
                if look == _LOOKS - 1:
                    raise OSError(f"segment is gone: {error}") from error
            else:
                return

    def _parts(self, stream: Stream, from_seq: int, times: Times, is_last_look: bool) -> Iterator[Frame]:
        next_seq = from_seq
        for part in self.index.parts(stream, from_seq):
            wanted = self._wanted(stream, part, times, is_last_look)
            for run in _runs([place for place in wanted if place.entry.next_seq > next_seq]):
                for frame in self._of_run(stream, part, run):
                    next_seq = frame.next_seq
                    yield frame

    def _parts_back(
        self, stream: Stream, before_seq: int, times: Times, is_last_look: bool
    ) -> Iterator[Frame]:
        for part in reversed(self.index.parts(stream)):
            if part.row.first_seq < before_seq:
                for place in reversed(self._wanted(stream, part, times, is_last_look)):
                    if place.entry.first_seq < before_seq:
                        yield from self._of_run(stream, part, [place])

    def _wanted(self, stream: Stream, part: Located, times: Times, is_last_look: bool) -> list[Place]:
        """Frames of a part with lines of these times."""
        if not times(part.row.first_at_s, part.row.last_at_s):
            return []
        try:
            places = self.places(part)
        except (DamagedError, FileNotFoundError) as error:
            if isinstance(error, FileNotFoundError) and not is_last_look:
                raise
            self._on_damage(Damage(stream, part.row.first_seq, part.row.next_seq, str(error)))
            return []
        return [place for place in places if times(place.entry.first_at_s, place.entry.last_at_s)]

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


def _first(frame: Frame) -> int:
    return frame.first_seq


def _next(frame: Frame) -> int:
    return frame.next_seq


def _runs(places: Sequence[Place]) -> Iterator[list[Place]]:
    """Frames that are fetched at once: few at first, for many readers want no more."""
    run: list[Place] = []
    room_bytes = _FIRST_RUN_BYTES
    for place in places:
        if run and place.offset + place.entry.size_bytes - run[0].offset > room_bytes:
            yield run
            run = []
            room_bytes = min(2 * room_bytes, _RUN_BYTES)
        run.append(place)
    if run:
        yield run
