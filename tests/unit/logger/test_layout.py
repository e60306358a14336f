from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.log import LogChunk
from gpuyard.contracts.segment import Row
from gpuyard_logger.core.frame import DamagedError, Entry, Packed, pack, unpack
from gpuyard_logger.core.layout import TRAILER_BYTES, Layout, Sealed, Stream, parse_rows, rows_bytes
from gpuyard_logger.core.part import TAIL_BYTES, footer_bytes, footer_of, parse_footer
from tests.unit.logger.batches import JOB, batch, patient


def segment(*parts: Sealed) -> tuple[bytes, list[Row]]:
    layout = Layout()
    data = b"".join((*layout.pieces(parts), layout.close()))
    assert layout.size_bytes == len(data)
    return data, layout.rows


def sealed(rank: int, *spans: tuple[int, int], ended: bool = False) -> Sealed:
    frames = [pack(first, batch(first, after).chunks) for first, after in spans]
    return Sealed(Stream(JOB, 1, rank), iter(frames), spans[-1][1] if spans else 0, ended, 9.0)


def part_of(data: bytes, row: Row) -> bytes:
    return data[row.offset : row.offset + row.size_bytes]


def frames_of(part: bytes) -> list[Packed]:
    footer = part[-footer_bytes(part[-TAIL_BYTES:]) :]
    places = parse_footer(footer, len(part))
    return [Packed(entry, part[offset : offset + entry.size_bytes]) for offset, entry in places]


def rows_in(data: bytes) -> tuple[Row, ...]:
    trailer = data[-TRAILER_BYTES:]
    size_bytes = rows_bytes(trailer, len(data))
    return parse_rows(data[:-TRAILER_BYTES][-size_bytes:], trailer)


def flips(data: bytes) -> list[bytes]:
    """The data with each bit of it turned."""
    return [
        data[:at] + bytes([data[at] ^ (1 << bit)]) + data[at + 1 :]
        for at in range(len(data))
        for bit in range(8)
    ]


def test_parts_are_found_by_their_rows() -> None:
    data, rows = segment(sealed(0, (0, 5), (7, 9)), sealed(1), sealed(2, (3, 4), ended=True))
    assert [(row.rank, row.first_seq, row.next_seq, row.ended) for row in rows] == [
        (0, 0, 9, False),
        (1, 0, 0, False),
        (2, 3, 4, True),
    ]
    found = [[frame.entry for frame in frames_of(part_of(data, row))] for row in rows]
    assert [[(one.first_seq, one.next_seq) for one in each] for each in found] == [
        [(0, 5), (7, 9)],
        [],
        [(3, 4)],
    ]


def test_a_segment_describes_itself() -> None:
    data, rows = segment(sealed(0, (0, 5)), sealed(1, (0, 5)))
    assert list(rows_in(data)) == rows


def test_a_part_without_lines_has_the_time_of_its_seal() -> None:
    _, (row,) = segment(sealed(0, ended=True))
    assert (row.first_at_s, row.last_at_s, row.raw_bytes) == (9.0, 9.0, 0)


def test_a_cut_segment_has_no_rows() -> None:
    data, _ = segment(sealed(0, (0, 3)))
    for size_bytes in range(len(data)):
        with pytest.raises(DamagedError):
            rows_in(data[:size_bytes])


def test_a_turned_bit_in_the_rows_is_found() -> None:
    data, rows = segment(sealed(0, (0, 3)))
    end = rows[-1].offset + rows[-1].size_bytes
    for end_bytes in flips(data[end:]):
        with pytest.raises(DamagedError):
            rows_in(data[:end] + end_bytes)


def test_a_turned_bit_in_a_frame_is_found() -> None:
    entry, data = pack(0, batch(0, 4).chunks)
    for damaged in flips(data):
        with pytest.raises(DamagedError):
            unpack(entry, damaged)


def test_a_cut_frame_is_found() -> None:
    entry, data = pack(0, batch(0, 4).chunks)
    for size_bytes in range(len(data)):
        with pytest.raises(DamagedError):
            unpack(entry, data[:size_bytes])


def test_a_turned_bit_in_a_footer_is_found() -> None:
    footer = footer_of([pack(0, batch(0, 4).chunks).entry])
    for damaged in flips(footer):
        with pytest.raises(DamagedError):
            parse_footer(damaged[-footer_bytes(damaged) :], 1000)


def test_a_footer_of_another_part_is_no_description() -> None:
    entry: Entry = pack(0, batch(0, 4).chunks).entry
    with pytest.raises(DamagedError):
        parse_footer(footer_of([entry]), entry.size_bytes + 1)


HOSTILE = [b"", b"\n" * 1000, b"\x00\xff\xfe\n\x1b[31m\r", b"no newline", Random(1).randbytes(100_000)]


@patient
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1), st.floats(0, 1e10), st.one_of(st.binary(max_size=99), st.sampled_from(HOSTILE))
        ),
        min_size=1,
        max_size=9,
    ),
    st.integers(0, 2**62),
)
def test_a_frame_gives_back_what_was_packed(chunks: list[tuple[int, float, bytes]], first_seq: int) -> None:
    packed = pack(first_seq, [LogChunk(*chunk) for chunk in chunks])
    frame = unpack(*packed)
    assert list(frame.chunks()) == [LogChunk(*chunk) for chunk in chunks]
    assert frame.next_seq - frame.first_seq == sum(LogChunk(*chunk).line_count for chunk in chunks)
    assert packed.entry.first_at_s == min(at_s for _, at_s, _ in chunks)
