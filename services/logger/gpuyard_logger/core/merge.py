"""Which segments to make one, and how their parts join.

Sizes are in tiers of eight: when a tier holds eight segments they become one of the next tier. So a line is
rewritten once for each tier, and the number of segments grows with the logarithm of the volume.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from gpuyard.contracts.segment import Segment
from gpuyard_logger.core.frame import RAW_BYTES, Packed, pack, unpack

FANOUT = 8
SMALLEST_BYTES = 256 * 1024
LARGEST_BYTES = 64 * 1024 * 1024
_SMALL_FRAME_BYTES = RAW_BYTES // 2


def tier_of(size_bytes: int) -> int:
    """0 below 256 KiB, one more for each factor of eight."""
    tier = 0
    while size_bytes >= SMALLEST_BYTES * FANOUT**tier:
        tier += 1
    return tier


def to_merge(segments: Iterable[Segment], most_rows: int) -> list[Segment]:
    """The oldest run of segments of the lowest full tier; empty if there is nothing to do."""
    small = sorted((s for s in segments if s.size_bytes < LARGEST_BYTES), key=lambda s: tier_of(s.size_bytes))
    for _, group in groupby(small, key=lambda s: tier_of(s.size_bytes)):
        run = _fitting(sorted(group, key=lambda s: s.sealed_at_s), most_rows)
        if len(run) >= FANOUT:
            return run
    return []


def _fitting(segments: Sequence[Segment], most_rows: int) -> list[Segment]:
    """The first segments that fit into one, by bytes and by rows. Rows of a stream become one."""
    taken: list[Segment] = []
    streams: set[tuple[str, int, int, int]] = set()
    size_bytes = 0
    for segment in segments:
        grown = streams | {(row.job, row.attempt, row.rank, row.kind) for row in segment.rows}
        size_bytes += segment.size_bytes
        if taken and (len(grown) > most_rows or size_bytes > LARGEST_BYTES):
            break
        taken.append(segment)
        streams = grown
    return taken


def joined(frames: Iterable[Packed]) -> Iterator[Packed]:
    """The same lines in fewer frames: small neighbours become one, full ones stay as they are."""
    waiting: list[Packed] = []
    for packed in frames:
        if waiting and not _continues(waiting, packed):
            yield _one(waiting)
            waiting = []
        if packed.entry.raw_bytes >= _SMALL_FRAME_BYTES and not waiting:
            yield packed
        else:
            waiting.append(packed)
    if waiting:
        yield _one(waiting)


def _continues(waiting: Sequence[Packed], packed: Packed) -> bool:
    raw_bytes = sum(each.entry.raw_bytes for each in waiting)
    is_next = waiting[-1].entry.next_seq == packed.entry.first_seq
    return is_next and raw_bytes + packed.entry.raw_bytes <= RAW_BYTES + _SMALL_FRAME_BYTES


def _one(frames: Sequence[Packed]) -> Packed:
    if len(frames) == 1:
        return frames[0]
    chunks = [chunk for packed in frames for chunk in unpack(*packed).chunks()]
    return pack(frames[0].entry.first_seq, chunks)
