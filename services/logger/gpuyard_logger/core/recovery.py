"""What of a rank's file is sound, after any crash.

A torn write can only lie behind the last `durable_bytes` mark: from its first bad frame on the file is cut,
and the stream delivers those lines again. Damage before the mark is another thing: the disk lost acknowledged
lines. Those are skipped and counted; what lies behind them is kept.

Reads headers only, and the bodies behind the last mark: O(frames), not O(bytes).
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpuyard_logger.core.frame import HEADER_BYTES, MAGIC, Header, is_sound, parse_header
from gpuyard_logger.core.index import Index
from gpuyard_logger.core.sequence import START, Position

ReadAt = Callable[[int, int], bytes]
"""Bytes of the file: `read_at(offset, count)`; fewer at its end."""
_STEP_BYTES = 64 * 1024


class Survey(NamedTuple):
    """A file as it may be used. Bytes from `end_bytes` on are to be cut off."""

    end_bytes: int
    position: Position
    marks: Index
    holes: int


def survey(read_at: ReadAt, size_bytes: int) -> Survey:
    """Find the sound frames of a file."""
    found = Survey(0, START, Index(), 0)
    durable_bytes = 0
    doubtful: deque[tuple[int, Header]] = deque()
    for offset, header in walk(read_at, 0, size_bytes):
        durable_bytes = max(durable_bytes, header.durable_bytes)
        while doubtful and doubtful[0][0] < durable_bytes:
            found = _with_frame(found, *doubtful.popleft())
        doubtful.append((offset, header))
    for offset, header in doubtful:
        is_torn = offset > max(found.end_bytes, durable_bytes)
        if is_torn or not is_sound(header, read_at(offset + HEADER_BYTES, header.body_bytes)):
            break
        found = _with_frame(found, offset, header)
    return found


def _with_frame(found: Survey, offset: int, header: Header) -> Survey:
    found.marks.add(header.first_seq, offset)
    return Survey(
        offset + header.frame_bytes,
        Position(header.next_seq, found.position.ended or header.end),
        found.marks,
        found.holes + (offset > found.end_bytes),
    )


def walk(read_at: ReadAt, offset: int, size_bytes: int) -> Iterator[tuple[int, Header]]:
    """From a frame on, all frames with a sound header that continue the numbering, in order."""
    next_seq = 0
    while offset + HEADER_BYTES <= size_bytes:
        header = parse_header(read_at(offset, HEADER_BYTES))
        if header and header.first_seq >= next_seq and offset + header.frame_bytes <= size_bytes:
            yield offset, header
            offset, next_seq = offset + header.frame_bytes, header.next_seq
        else:
            offset = _next_magic(read_at, offset + 1, size_bytes)


def _next_magic(read_at: ReadAt, offset: int, size_bytes: int) -> int:
    """Where the next frame may begin; the end of the file if nowhere."""
    while offset < size_bytes:
        found = read_at(offset, _STEP_BYTES + len(MAGIC) - 1).find(MAGIC)
        if found >= 0:
            return offset + found
        offset += _STEP_BYTES
    return size_bytes
