"""A frame: consecutive output of one rank, compressed by itself, so that it can be read by itself.

Compressed are a table of the chunks and their text in one piece: a search runs over the text as it is, and
only where it finds something the table tells time and stream.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import zstandard
from msgspec import Struct

from gpuyard.contracts.log import LogChunk

RAW_BYTES = 256 * 1024
"""Text of a full frame: large enough to compress well, small enough to read one for a few lines."""
_LEVEL = 3
_COUNT = struct.Struct("<I")
_MARK = struct.Struct("<BdII")
MARK_BYTES = _MARK.size
"""What a chunk adds to a frame besides its text."""


class DamagedError(Exception):
    """Stored bytes are not what was written."""


class Entry(Struct, frozen=True, array_like=True):
    """What a part's footer says of a frame. Times are the earliest and the latest of its chunks."""

    size_bytes: int
    crc: int
    raw_bytes: int
    first_seq: int
    next_seq: int
    first_at_s: float
    last_at_s: float


class Packed(NamedTuple):
    """A frame as it is stored."""

    entry: Entry
    data: bytes


class Mark(NamedTuple):
    """One chunk of a frame: its stream, its time, and how much of the text is its."""

    stream: int
    at_s: float
    size_bytes: int
    lines: int


class Marks:
    """The table of a frame's chunks, read only by whom it interests: a search seldom does."""

    def __init__(self, table: bytes) -> None:
        self._table = table

    def __iter__(self) -> Iterator[Mark]:
        return map(Mark._make, _MARK.iter_unpack(self._table))


class Frame(NamedTuple):
    """A frame as it is read."""

    first_seq: int
    next_seq: int
    marks: Iterable[Mark]
    text: bytes

    def chunks(self) -> Iterator[LogChunk]:
        at = 0
        for mark in self.marks:
            yield LogChunk(mark.stream, mark.at_s, self.text[at : at + mark.size_bytes])
            at += mark.size_bytes


def mark_of(chunk: LogChunk) -> Mark:
    return Mark(chunk.stream, chunk.at_s, len(chunk.data), chunk.line_count)


def pack(first_seq: int, chunks: Sequence[LogChunk]) -> Packed:
    """Compress chunks whose lines are numbered from `first_seq` on, without a gap."""
    marks = [mark_of(chunk) for chunk in chunks]
    table = b"".join(_MARK.pack(*mark) for mark in marks)
    raw = b"".join((_COUNT.pack(len(marks)), table, *(chunk.data for chunk in chunks)))
    data = zstandard.compress(raw, _LEVEL)
    times = [mark.at_s for mark in marks]
    lines = sum(mark.lines for mark in marks)
    return Packed(
        Entry(len(data), crc32(data), len(raw), first_seq, first_seq + lines, min(times), max(times)), data
    )


def is_sound(entry: Entry, data: bytes) -> bool:
    """Whether the bytes are those that were packed."""
    return len(data) == entry.size_bytes and crc32(data) == entry.crc


def unpack(entry: Entry, data: bytes) -> Frame:
    """Read a frame.

    Raises:
        DamagedError: the bytes are not those that were packed.

    """
    if not is_sound(entry, data):
        raise DamagedError(f"lines {entry.first_seq} to {entry.next_seq - 1} fail their checksum")
    raw = zstandard.decompress(data, max_output_size=entry.raw_bytes)
    (count,) = _COUNT.unpack_from(raw)
    text_at = _COUNT.size + count * _MARK.size
    marks = Marks(raw[_COUNT.size : text_at])
    return Frame(entry.first_seq, entry.next_seq, marks, raw[text_at:])
