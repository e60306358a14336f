"""A part: all frames of one rank in a segment, and behind them a footer that lists them.

Readers fetch the footer first (its size stands at the very end), and then the frames they need.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from gpuyard_logger.core.frame import DamagedError, Entry

_TRAILER = struct.Struct("<II4s")
_MAGIC = b"GYP2"
TAIL_BYTES = 4096
"""Fetching so much of a part's end usually brings the whole footer."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[Entry, ...]).decode


class Place(NamedTuple):
    """Where a frame lies, counted from the beginning of its part."""

    offset: int
    entry: Entry


def footer_of(entries: Sequence[Entry]) -> bytes:
    """What stands behind the frames."""
    listed = _encode(entries)
    return listed + _TRAILER.pack(len(listed), crc32(listed), _MAGIC)


def footer_bytes(tail: bytes) -> int:
    """How long the footer is, from the last bytes of the part.

    Raises:
        DamagedError: there is no footer.

    """
    if len(tail) < _TRAILER.size or tail[-4:] != _MAGIC:
        raise DamagedError("the footer of the part is damaged")
    return _TRAILER.size + int(_TRAILER.unpack_from(tail, len(tail) - _TRAILER.size)[0])


def parse_footer(footer: bytes, part_bytes: int) -> list[Place]:
    """Read where the frames lie.

    Args:
        footer: Exactly the footer.
        part_bytes: Size of the whole part.

    Raises:
        DamagedError: it is not what was written.

    """
    listed = footer[: -_TRAILER.size]
    _, crc, _ = _TRAILER.unpack_from(footer, len(listed))
    if crc32(listed) != crc:
        raise DamagedError("the footer of the part fails its checksum")
    places, offset = [], 0
    for entry in _decode(listed):
        places.append(Place(offset, entry))
        offset += entry.size_bytes
    if offset + len(footer) != part_bytes:
        raise DamagedError("the footer of the part does not describe it")
    return places
