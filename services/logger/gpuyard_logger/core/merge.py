"""Which segments to make one, and how their parts join.

A segment's fullness is the larger of its share of the bytes and of the rows that a segment may have. Eight of
about the same fullness become one, until it is full. So a line is rewritten a few times at most, and the
number of small segments stays small.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from gpuyard.contracts.segment import MAX_ROWS, Row
from gpuyard_logger.core.frame import RAW_BYTES, Packed, is_sound, pack, unpack
from gpuyard_logger.core.sequence import without_first

FANOUT = 8
LARGEST_BYTES = 64 * 1024 * 1024
_SMALL_FRAME_BYTES = RAW_BYTES // 2
T = TypeVar("T")


class Size(NamedTuple):
    """What counts of a segment here."""

    segment: str
    sealed_at_s: float
    size_bytes: int
    rows: int

    @property
    def tier(self) -> int:
        """0: full, from an eighth on; one more for each factor of eight below."""
        fullness = max(self.size_bytes / LARGEST_BYTES, self.rows / MAX_ROWS)
        return max(0, -math.floor(math.log(fullness, FANOUT)) - 1)


def to_merge(sizes: Iterable[Size]) -> list[Size]:
    """The oldest eight of the emptiest tier that has so many; none if there is nothing to do."""
    ranked = sorted((size for size in sizes if size.tier), key=lambda size: (-size.tier, size.sealed_at_s))
    for _, group in groupby(ranked, key=lambda size: size.tier):
        run = list(group)[:FANOUT]
        if len(run) == FANOUT:
            return run
    return []


def unbroken(parts: Iterable[T], row_of: Callable[[T], Row]) -> Iterator[list[T]]:
    """Group parts of a stream, in their order, so that no number is missing between those of a group.

    What is missing may lie in another segment. A part that spanned it would hide it from readers.
    """
    group: list[T] = []
    next_seq = 0
    for part in parts:
        row = row_of(part)
        if group and row.first_seq > next_seq:
            yield group
            group = []
        group.append(part)
        next_seq = max(next_seq, row.next_seq)
    if group:
        yield group


def joined(frames: Iterable[Packed]) -> Iterator[Packed]:
    """The same lines, each once, in fewer frames: small neighbours become one, full ones stay as they are.

    A damaged frame stays as it is, so that readers are told; what another frame has of its lines stays too.
    """
    waiting: list[Packed] = []
    for packed in _once(frames):
        if waiting and not _continues(waiting, packed):
            yield _one(waiting)
            waiting = []
        if waiting or (packed.entry.raw_bytes < _SMALL_FRAME_BYTES and is_sound(*packed)):
            waiting.append(packed)
        else:
            yield packed
    if waiting:
        yield _one(waiting)


def _once(frames: Iterable[Packed]) -> Iterator[Packed]:
    """Without lines that a sound frame before has."""
    next_seq = 0
    for packed in frames:
        if not is_sound(*packed):
            yield packed
        elif packed.entry.next_seq > next_seq:
            yield _from_line(packed, next_seq)
            next_seq = packed.entry.next_seq


def _from_line(packed: Packed, seq: int) -> Packed:
    skipped = seq - packed.entry.first_seq
    if skipped <= 0:
        return packed
    return pack(seq, list(without_first(unpack(*packed).chunks(), skipped)))


def _continues(waiting: Sequence[Packed], packed: Packed) -> bool:
    raw_bytes = sum(each.entry.raw_bytes for each in waiting)
    is_next = waiting[-1].entry.next_seq == packed.entry.first_seq
    return (
        is_next and raw_bytes + packed.entry.raw_bytes <= RAW_BYTES + _SMALL_FRAME_BYTES and is_sound(*packed)
    )


def _one(frames: Sequence[Packed]) -> Packed:
    if len(frames) == 1:
        return frames[0]
    chunks = [chunk for packed in frames for chunk in unpack(*packed).chunks()]
    return pack(frames[0].entry.first_seq, chunks)
