"""How a segment lies in its file: parts one behind the other, then its rows, so that it describes itself.

The rows in the file are only read when the bus lost the segment's record: what stands in `SEGMENTS` decides.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from gpuyard.contracts.segment import Row
from gpuyard_logger.core.frame import DamagedError, Entry, Packed
from gpuyard_logger.core.part import footer_of

MAGIC = b"GYSEG002"
_TRAILER = struct.Struct("<QI8s")
TRAILER_BYTES = _TRAILER.size

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Row, ...]).decode


class Stream(NamedTuple):
    """What line numbers count in, or one rank's series of numbers."""

    job: str
    attempt: int
    rank: int
    kind: int = 0


class Sealed(NamedTuple):
    """Frames of a stream, ready to be laid down. Without frames it says that the rank ended at `next_seq`."""

    stream: Stream
    frames: Iterable[Packed]
    """Laid down as they come, so that memory need not hold all of a large part."""
    next_seq: int
    ended: bool
    at_s: float
    """When it was sealed: stands for the time of lines where there are none."""


class Layout:
    """Lays parts down; hand `pieces` to a file in order, then `close()`.

    `rows` and `size_bytes` tell what was laid down so far.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.size_bytes = len(MAGIC)

    def pieces(self, parts: Iterable[Sealed]) -> Iterator[bytes]:
        """The bytes of these parts, in the order of the file."""
        if not self.rows:
            yield MAGIC
        for part in parts:
            entries = []
            for frame in part.frames:
                entries.append(frame.entry)
                yield frame.data
            footer = footer_of(entries)
            self._note(part, entries, len(footer))
            yield footer

    def close(self) -> bytes:
        """The end of the file."""
        rows = _encode(self.rows)
        end = rows + _TRAILER.pack(len(rows), crc32(rows), MAGIC)
        self.size_bytes += len(end)
        return end

    def _note(self, part: Sealed, entries: Sequence[Entry], footer_bytes: int) -> None:
        size_bytes = sum(entry.size_bytes for entry in entries) + footer_bytes
        self.rows.append(
            Row(
                *part.stream,
                first_seq=min((entry.first_seq for entry in entries), default=part.next_seq),
                next_seq=part.next_seq,
                first_at_s=min((entry.first_at_s for entry in entries), default=part.at_s),
                last_at_s=max((entry.last_at_s for entry in entries), default=part.at_s),
                offset=self.size_bytes,
                size_bytes=size_bytes,
                raw_bytes=sum(entry.raw_bytes for entry in entries),
                ended=part.ended,
            )
        )
        self.size_bytes += size_bytes


def rows_bytes(trailer: bytes, segment_bytes: int) -> int:
    """How many bytes of rows stand before the trailer of a segment of this size.

    Raises:
        DamagedError: this is not the end of a whole segment.

    """
    if len(trailer) != TRAILER_BYTES or not trailer.endswith(MAGIC):
        raise DamagedError("the segment has no end")
    size_bytes = int(_TRAILER.unpack(trailer)[0])
    if size_bytes > segment_bytes - TRAILER_BYTES:
        raise DamagedError("the end of the segment is damaged")
    return size_bytes


def parse_rows(rows: bytes, trailer: bytes) -> tuple[Row, ...]:
    """Read a segment's own rows.

    Raises:
        DamagedError: they are not what was written.

    """
    if crc32(rows) != _TRAILER.unpack(trailer)[1]:
        raise DamagedError("the rows of the segment fail their checksum")
    return _decode(rows)
