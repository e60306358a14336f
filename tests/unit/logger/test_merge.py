from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.log import OUT, LogChunk
from gpuyard.contracts.segment import MAX_ROWS, Row
from gpuyard_logger.core.frame import RAW_BYTES, DamagedError, Packed, pack, unpack
from gpuyard_logger.core.merge import FANOUT, LARGEST_BYTES, Size, joined, to_merge, unbroken
from tests.unit.logger.batches import JOB, batch, patient, text_of


def frame(first_seq: int, next_seq: int) -> Packed:
    return pack(first_seq, batch(first_seq, next_seq).chunks)


def bulky(first_seq: int) -> Packed:
    """A line that does not compress, larger than a small frame."""
    text = Random(first_seq).randbytes(RAW_BYTES // 2).replace(b"\n", b"x")
    return pack(first_seq, [LogChunk(OUT, 0.0, text + b"\n")])


def damaged(packed: Packed) -> Packed:
    return packed._replace(data=bytes([packed.data[0] ^ 1]) + packed.data[1:])


def lines(frames: list[Packed]) -> list[tuple[int, bytes]]:
    """Number and text of the lines, a line that comes again only once: as readers see them."""
    found: dict[int, bytes] = {}
    for packed in frames:
        seq = packed.entry.first_seq
        for chunk in unpack(*packed).chunks():
            for text in chunk.data.splitlines():
                found.setdefault(seq, text)
                seq += 1
    return sorted(found.items())


def row(first_seq: int, next_seq: int) -> Row:
    return Row(JOB, 1, 0, 0, first_seq, next_seq, 0.0, 0.0, 0, 0, 0)


def test_small_neighbours_become_one() -> None:
    (one,) = joined([frame(0, 5), frame(5, 9), frame(9, 30)])
    assert (one.entry.first_seq, one.entry.next_seq) == (0, 30)
    assert lines([one]) == [(seq, text_of(seq)) for seq in range(30)]


def test_what_is_full_stays_as_it_is() -> None:
    whole = [bulky(0), bulky(1), bulky(2)]
    assert list(joined(whole)) == whole


def test_frames_with_a_gap_between_stay_apart() -> None:
    frames = [frame(0, 5), frame(8, 9)]
    assert list(joined(frames)) == frames


def test_a_joined_frame_is_not_larger_than_one_and_a_half() -> None:
    small = [pack(seq, [LogChunk(OUT, 0.0, b"x" * 60_000 + b"\n")]) for seq in range(20)]
    frames = list(joined(small))
    assert len(frames) < 6
    assert max(one.entry.raw_bytes for one in frames) <= 1.5 * RAW_BYTES


def test_a_damaged_frame_stays_and_takes_nothing_with_it() -> None:
    broken = damaged(frame(5, 9))
    frames = list(joined([frame(0, 3), frame(3, 5), broken, frame(9, 12), frame(12, 15)]))
    assert [(one.entry.first_seq, one.entry.next_seq) for one in frames] == [(0, 5), (5, 9), (9, 15)]
    assert frames[1] == broken
    with pytest.raises(DamagedError):
        unpack(*frames[1])


def test_what_another_frame_has_of_damaged_lines_is_kept() -> None:
    frames = list(joined([damaged(frame(0, 9)), frame(2, 6), frame(9, 12)]))
    assert lines(frames[1:]) == [(seq, text_of(seq)) for seq in (2, 3, 4, 5, 9, 10, 11)]


@st.composite
def overlapping(draw: st.DrawFn) -> list[Packed]:
    """Frames in the order of their first lines, with gaps, overlaps and repeats."""
    spans = draw(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=12))
    return [frame(first, first + count) for first, count in sorted(spans)]


@patient
@given(overlapping())
def test_joining_keeps_each_line_once(frames: list[Packed]) -> None:
    after = list(joined(frames))
    assert lines(after) == lines(frames)
    ends = [(one.entry.first_seq, one.entry.next_seq) for one in after]
    assert all(end <= first for (_, end), (first, _) in pairwise(ends))


def test_parts_are_grouped_where_no_number_is_missing() -> None:
    rows = [row(0, 5), row(3, 8), row(8, 9), row(12, 14), row(14, 14), row(13, 15)]
    assert list(unbroken(rows, lambda one: one)) == [rows[:3], rows[3:]]
    assert list(unbroken([], lambda one: one)) == []


def size(segment: str, size_bytes: int, rows: int = 1, at_s: float = 0.0) -> Size:
    return Size(segment, at_s, size_bytes, rows)


def test_seven_are_left_and_the_oldest_eight_are_merged() -> None:
    small = [size(str(n), 1000, at_s=float(n)) for n in range(10)]
    assert to_merge(small[:7]) == []
    assert to_merge(reversed(small)) == small[:8]


def test_full_ones_are_never_merged() -> None:
    assert to_merge(size(str(n), LARGEST_BYTES // 8) for n in range(100)) == []
    assert to_merge(size(str(n), 1, rows=MAX_ROWS // 8) for n in range(100)) == []


@patient
@given(st.lists(st.tuples(st.integers(1, LARGEST_BYTES), st.integers(1, MAX_ROWS)), max_size=200))
def test_merging_ends_with_few_segments_within_their_limits(sizes: list[tuple[int, int]]) -> None:
    segments = [size(str(n), *one, at_s=float(n)) for n, one in enumerate(sizes)]
    while chosen := to_merge(segments):
        segments = [one for one in segments if one not in chosen]
        merged_bytes = sum(one.size_bytes for one in chosen)
        merged_rows = sum(one.rows for one in chosen)
        assert merged_bytes <= LARGEST_BYTES
        assert merged_rows <= MAX_ROWS
        segments.append(Size("+".join(one.segment for one in chosen), 0.0, merged_bytes, merged_rows))
    not_full = [one for one in segments if one.tier]
    assert len(not_full) <= (FANOUT - 1) * len({one.tier for one in not_full})
