"""How a batch lies in a rank's file: a header with its own checksum, then the encoded batch.

Headers are checked apart from bodies, so that a file is opened by hopping from header to header. Each header
says how many bytes before it were on disk when it was written (`durable_bytes`): what lies before that was
acknowledged, what lies behind the last such mark may be torn.
"""

import struct
from typing import NamedTuple
from zlib import crc32

from gpuyard.contracts.codec import MAX_MESSAGE_BYTES, decode, encode
from gpuyard.contracts.log import LogBatch

MAGIC = b"GYL1"
_FIELDS = struct.Struct("<IIQQQd?")
_CRC = struct.Struct("<I")
HEADER_BYTES = len(MAGIC) + _CRC.size + _FIELDS.size


class Header(NamedTuple):
    """What is known of a batch without reading it."""

    body_crc: int
    body_bytes: int
    first_seq: int
    next_seq: int
    durable_bytes: int
    at_s: float
    end: bool

    @property
    def frame_bytes(self) -> int:
        return HEADER_BYTES + self.body_bytes


def pack(batch: LogBatch, durable_bytes: int) -> bytes:
    """Frame a batch that is written behind `durable_bytes` bytes known to be on disk."""
    body = encode(batch)
    at_s = batch.chunks[0].at_s if batch.chunks else 0.0
    fields = _FIELDS.pack(
        crc32(body), len(body), batch.first_seq, batch.next_seq, durable_bytes, at_s, batch.end
    )
    return b"".join((MAGIC, _CRC.pack(crc32(fields)), fields, body))


def parse_header(data: bytes) -> Header | None:
    """Read a header from the first bytes of `data`; None if there is no sound one."""
    if len(data) < HEADER_BYTES or not data.startswith(MAGIC):
        return None
    fields = data[HEADER_BYTES - _FIELDS.size : HEADER_BYTES]
    (crc,) = _CRC.unpack_from(data, len(MAGIC))
    if crc != crc32(fields):
        return None
    header = Header(*_FIELDS.unpack(fields))
    return header if header.body_bytes <= MAX_MESSAGE_BYTES else None


def is_sound(header: Header, body: bytes) -> bool:
    return len(body) == header.body_bytes and crc32(body) == header.body_crc


def parse_body(header: Header, body: bytes) -> LogBatch | None:
    """Read the batch; None if the bytes are damaged."""
    return decode(body, LogBatch) if is_sound(header, body) else None
