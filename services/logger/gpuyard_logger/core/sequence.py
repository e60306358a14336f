"""Arithmetic of line numbers: what of a batch is new, which lines are missing, where to part it.

Batches of a rank may overlap or repeat after a fault of their writer. A line's number never changes, so
cutting by number is all it takes to hold every line exactly once. Batches are parted between lines only.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.log import LogBatch, LogChunk

CHUNK_OVERHEAD_BYTES = 24
BATCH_OVERHEAD_BYTES = 256
MAX_LINE_BYTES = 512 * 1024
"""A page holds at least one line, and must fit in a message."""


class Position(NamedTuple):
    """How far a rank's output is stored."""

    next_seq: int = 0
    ended: bool = False


START = Position()


def check(batch: LogBatch) -> None:
    """Refuse a batch whose numbers don't agree with its lines.

    Raises:
        InvalidSpec: the count differs, or a line is too long to be given out again.

    """
    counted = sum(chunk.line_count for chunk in batch.chunks)
    claimed = batch.next_seq - batch.first_seq
    if counted != claimed:
        raise InvalidSpec(f"a batch with {counted} lines claims to hold {claimed}")
    if batch.next_seq >= 2**63:
        raise InvalidSpec(f"line number {batch.next_seq} is beyond 63 bits")
    if any(_longest_line_bytes(chunk.data) > MAX_LINE_BYTES for chunk in batch.chunks):
        raise InvalidSpec(
            f"a line is longer than {MAX_LINE_BYTES} bytes", "Split it; it may go on in the next."
        )


def cut(batch: LogBatch, next_seq: int) -> LogBatch | None:
    """The part of the batch from line `next_seq` on; None if all its lines come before.

    An end without lines of its own is new as long as it does not lie before `next_seq`.
    """
    if batch.first_seq >= next_seq:
        return batch
    if batch.next_seq < next_seq or (batch.next_seq == next_seq and not batch.end):
        return None
    rest = tuple(without_first(batch.chunks, next_seq - batch.first_seq))
    return replace(batch, first_seq=next_seq, chunks=rest)


def advance(position: Position, batch: LogBatch) -> tuple[LogBatch | None, Position]:
    """What of the batch to store, and the position after it."""
    part = cut(batch, position.next_seq)
    if part is None or not (part.next_seq > part.first_seq or (part.end and not position.ended)):
        return None, position
    return part, Position(part.next_seq, position.ended or part.end)


def head(batch: LogBatch, room_bytes: int) -> LogBatch:
    """The longest beginning of the batch, in whole lines, that fits in `room_bytes`. It may have no line."""
    if size_bytes(batch) <= room_bytes:
        return batch
    return _beginning(batch, tuple(_fitting(batch.chunks, room_bytes - BATCH_OVERHEAD_BYTES)))


def first_line(batch: LogBatch) -> LogBatch:
    """The batch with its first line alone."""
    first = batch.chunks[0]
    line = first.data.split(b"\n", 1)[0]
    end = len(line) + 1
    return _beginning(batch, (LogChunk(first.stream, first.at_s, first.data[:end]),))


def size_bytes(batch: LogBatch) -> int:
    """No less than what the batch takes in a message."""
    return BATCH_OVERHEAD_BYTES + sum(CHUNK_OVERHEAD_BYTES + len(chunk.data) for chunk in batch.chunks)


def without_first(chunks: Iterable[LogChunk], lines: int) -> Iterator[LogChunk]:
    """The chunks less their first `lines` lines."""
    for chunk in chunks:
        count = chunk.line_count
        if count <= lines:
            lines -= count
        else:
            yield LogChunk(chunk.stream, chunk.at_s, chunk.data.split(b"\n", lines)[-1]) if lines else chunk
            lines = 0


def _beginning(batch: LogBatch, chunks: tuple[LogChunk, ...]) -> LogBatch:
    next_seq = batch.first_seq + sum(chunk.line_count for chunk in chunks)
    is_whole = next_seq == batch.next_seq
    return replace(batch, next_seq=next_seq, chunks=chunks, end=batch.end and is_whole)


def _fitting(chunks: tuple[LogChunk, ...], room_bytes: int) -> Iterator[LogChunk]:
    """The first chunks, the last one shortened to whole lines, that fit."""
    for chunk in chunks:
        room_bytes -= CHUNK_OVERHEAD_BYTES + len(chunk.data)
        if room_bytes >= 0:
            yield chunk
            continue
        end = chunk.data.rfind(b"\n", 0, max(len(chunk.data) + room_bytes, 0)) + 1
        if end:
            yield LogChunk(chunk.stream, chunk.at_s, chunk.data[:end])
        return


def _longest_line_bytes(data: bytes) -> int:
    if len(data) <= MAX_LINE_BYTES:
        return len(data)
    return max(map(len, data.split(b"\n")))
