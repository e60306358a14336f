from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.log import LogBatch
from gpuyard_logger.core.frame import HEADER_BYTES, MAGIC, pack, parse_body, parse_header
from gpuyard_logger.core.index import MARK_BYTES, Index
from gpuyard_logger.core.recovery import ReadAt, Survey, survey, walk
from gpuyard_logger.core.sequence import Position
from tests.unit.logger.batches import batch, patient, raw, seqs


def reader_of(data: bytes) -> ReadAt:
    return lambda offset, count: data[offset : offset + count]


def survey_of(data: bytes) -> Survey:
    return survey(reader_of(data), len(data))


def file_of(*rounds: list[LogBatch]) -> tuple[bytes, list[int]]:
    """A file written in rounds, and where each round begins."""
    data, starts = b"", []
    for batches in rounds:
        starts.append(len(data))
        data += b"".join(pack(one, starts[-1]) for one in batches)
    return data, starts


def seqs_in(data: bytes) -> list[int]:
    """The line numbers that a file gives out once it is recovered."""
    found = survey_of(data)
    read_at = reader_of(data[: found.end_bytes])
    bodies = (
        parse_body(header, read_at(offset + HEADER_BYTES, header.body_bytes))
        for offset, header in walk(read_at, 0, found.end_bytes)
    )
    return seqs(one for one in bodies if one is not None)


THREE_ROUNDS = (
    [batch(0, 4), batch(4, 7)],
    [batch(7, 9)],
    [batch(9, 14), batch(14, 15), batch(15, 16, end=True)],
)
DATA, STARTS = file_of(*THREE_ROUNDS)


def test_a_frame_gives_back_its_batch() -> None:
    data = pack(batch(5, 9, end=True), 77)
    header = parse_header(data)
    assert header
    assert (header.first_seq, header.next_seq, header.durable_bytes, header.end) == (5, 9, 77, True)
    assert header.frame_bytes == len(data)
    assert parse_body(header, data[HEADER_BYTES:]) == batch(5, 9, end=True)


def test_any_damaged_byte_of_a_frame_is_noticed() -> None:
    data = pack(batch(0, 2), 0)
    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
        header = parse_header(damaged)
        assert header is None or parse_body(header, damaged[HEADER_BYTES:]) is None


def test_an_empty_file_is_a_beginning() -> None:
    assert survey_of(b"")[:2] == (0, Position())


def test_a_sound_file_is_used_as_it_is() -> None:
    found = survey_of(DATA)
    assert (found.end_bytes, found.position, found.holes) == (len(DATA), Position(16, ended=True), 0)
    assert seqs_in(DATA) == list(range(16))


def test_a_file_cut_anywhere_keeps_every_whole_batch() -> None:
    ends = [0]
    for one, start in zip(THREE_ROUNDS, STARTS, strict=True):
        for part in one:
            ends.append(ends[-1] + len(pack(part, start)))
    for size in range(len(DATA)):
        found = survey_of(DATA[:size])
        assert found.end_bytes == max(end for end in ends if end <= size)
        assert found.holes == 0
        assert seqs_in(DATA[:size]) == list(range(found.position.next_seq))


@patient
@given(st.integers(0, 255), st.integers(0, 40))
def test_garbage_behind_the_end_is_cut_off(byte: int, count: int) -> None:
    found = survey_of(DATA + bytes([byte]) * count)
    assert (found.end_bytes, found.holes) == (len(DATA), 0)


def test_damage_in_the_last_round_cuts_there() -> None:
    for at in range(STARTS[-1], len(DATA)):
        damaged = DATA[:at] + bytes([DATA[at] ^ 0xFF]) + DATA[at + 1 :]
        found = survey_of(damaged)
        assert STARTS[-1] <= found.end_bytes <= at
        assert seqs_in(damaged) == list(range(found.position.next_seq))
        assert found.position.next_seq >= 9


def test_damage_before_the_last_round_loses_the_damaged_batch_alone() -> None:
    for at in range(STARTS[-1]):
        damaged = DATA[:at] + bytes([DATA[at] ^ 0xFF]) + DATA[at + 1 :]
        lost = next(
            set(range(one.first_seq, one.next_seq))
            for one, (begin, end) in zip(
                (*THREE_ROUNDS[0], *THREE_ROUNDS[1]), _spans(THREE_ROUNDS[:2]), strict=True
            )
            if begin <= at < end
        )
        assert survey_of(damaged).end_bytes == len(DATA)
        assert seqs_in(damaged) == [seq for seq in range(16) if seq not in lost]


def _spans(rounds: tuple[list[LogBatch], ...]) -> list[tuple[int, int]]:
    spans, offset = [], 0
    for one, start in zip(rounds, STARTS, strict=False):
        for part in one:
            spans.append((offset, offset + len(pack(part, start))))
            offset = spans[-1][1]
    return spans


def test_a_page_of_the_last_round_that_never_reached_the_disk_cuts_there() -> None:
    """A power loss may keep a later page and lose an earlier one: what is behind it was not acknowledged."""
    first = pack(batch(9, 14), STARTS[-1])
    torn = DATA[: STARTS[-1]] + bytes(len(first)) + DATA[STARTS[-1] + len(first) :]
    found = survey_of(torn)
    assert (found.end_bytes, found.position) == (STARTS[-1], Position(9))


def test_output_that_looks_like_a_frame_is_no_frame() -> None:
    nasty = raw(MAGIC + pack(batch(0, 1), 0) + b"\n", first_seq=0, next_seq=0)
    count = sum(chunk.data.count(b"\n") for chunk in nasty.chunks)
    data, _ = file_of([raw(nasty.chunks[0].data, next_seq=count)], [batch(count, count + 3)])
    assert survey_of(data).position == Position(count + 3)


@patient
@given(st.lists(st.integers(1, MARK_BYTES), min_size=1, max_size=60))
def test_the_index_finds_a_place_at_or_shortly_before(sizes: list[int]) -> None:
    index, offset, places = Index(), 0, []
    for seq, size in enumerate(sizes):
        index.add(seq, offset)
        places.append(offset)
        offset += size
    for seq, place in enumerate(places):
        assert place - MARK_BYTES < index.find(seq) <= place
        assert index.find(seq) in places


def test_an_empty_index_begins_at_the_beginning() -> None:
    assert Index().find(99) == 0
