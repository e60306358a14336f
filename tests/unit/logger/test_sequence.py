import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.log import LogBatch, lines_of
from gpuyard_logger.core.sequence import (
    MAX_LINE_BYTES,
    START,
    Position,
    advance,
    check,
    cut,
    first_line,
    head,
    size_bytes,
)
from tests.unit.logger.batches import batch, faulty_writing, is_true_to_number, lines, patient, raw, seqs

CHUNKS = st.lists(
    st.lists(st.sampled_from([b"a\n", b"\n", b"long line\n", b"\xff\x00\n"]), min_size=1, max_size=4).map(
        b"".join
    ),
    max_size=4,
)


@st.composite
def any_batch(draw: st.DrawFn) -> LogBatch:
    data: list[bytes] = draw(CHUNKS)
    if data:
        data[-1] += draw(st.sampled_from([b"", b"no newline"]))
    first = draw(st.integers(0, 10))
    count = sum(chunk.line_count for chunk in raw(*data).chunks)
    return raw(*data, first_seq=first, next_seq=first + count, end=draw(st.booleans()))


@patient
@given(any_batch(), st.integers(0, 30))
def test_cutting_keeps_exactly_the_lines_from_a_number_on(whole: LogBatch, next_seq: int) -> None:
    part = cut(whole, next_seq)
    kept = list(lines_of(part)) if part else []
    assert kept == [line for line in lines_of(whole) if line.seq >= next_seq]
    if part:
        check(part)
        assert part.end == whole.end


def test_cutting_what_is_ahead_changes_nothing() -> None:
    assert cut(batch(5, 9), 5) == batch(5, 9)
    assert cut(batch(5, 9), 2) == batch(5, 9)


def test_a_covered_batch_is_cut_to_nothing() -> None:
    assert cut(batch(0, 9), 9) is None
    assert cut(batch(0, 9, end=True), 10) is None


def test_an_end_survives_the_cut_of_all_its_lines() -> None:
    part = cut(batch(0, 9, end=True), 9)
    assert part == LogBatch(part.job, 1, 0, 9, 9, (), end=True) if part else False


@patient
@given(any_batch(), st.integers(0, 500))
def test_a_head_is_a_beginning_in_whole_lines_that_fits(whole: LogBatch, room_bytes: int) -> None:
    part = head(whole, room_bytes)
    count = len(list(lines_of(part)))
    assert list(lines_of(part)) == list(lines_of(whole))[:count]
    check(part)
    assert part == whole or not part.end
    assert not part.chunks or size_bytes(part) <= room_bytes


@patient
@given(any_batch(), st.integers(0, 500))
def test_a_head_takes_as_many_lines_as_fit(whole: LogBatch, room_bytes: int) -> None:
    part = head(whole, room_bytes)
    rest = cut(whole, part.next_seq)
    if rest and rest.chunks:
        one_more = first_line(rest)
        chunks = (*part.chunks, *one_more.chunks)
        assert size_bytes(replace(part, chunks=chunks)) > room_bytes


@patient
@given(any_batch())
def test_the_size_is_no_less_than_what_is_sent(whole: LogBatch) -> None:
    assert len(encode(whole)) <= size_bytes(whole)


def test_a_first_line_is_one_line() -> None:
    assert [line.text for line in lines_of(first_line(raw(b"a\nb\n", b"c\n", next_seq=3)))] == [b"a"]
    assert [line.text for line in lines_of(first_line(raw(b"tail", next_seq=1)))] == [b"tail"]


def test_the_end_goes_with_the_last_line() -> None:
    assert not first_line(raw(b"a\nb\n", next_seq=2, end=True)).end
    assert first_line(raw(b"a\n", next_seq=1, end=True)).end


@patient
@given(faulty_writing())
def test_after_any_repeats_each_line_is_there_once(written: list[LogBatch]) -> None:
    position, stored = START, []
    for one in written:
        part, position = advance(position, one)
        stored += [part] if part else []
    assert position == Position(written[-1].next_seq, ended=True)
    assert seqs(stored) == list(range(position.next_seq))
    assert is_true_to_number(lines(stored))
    assert [one.end for one in stored] == [False] * (len(stored) - 1) + [True]


def test_a_gap_is_taken_as_it_is() -> None:
    part, position = advance(Position(5), batch(8, 10))
    assert part == batch(8, 10)
    assert position == Position(10)


@pytest.mark.parametrize("position", [Position(0), Position(7)])
def test_a_batch_with_nothing_in_it_changes_nothing(position: Position) -> None:
    assert advance(position, raw(first_seq=9, next_seq=9)) == (None, position)


@pytest.mark.parametrize(
    "bad",
    [
        raw(b"a\nb\n", next_seq=1),
        raw(b"a\n", next_seq=2),
        raw(b"a\n", first_seq=5, next_seq=2),
        raw(b"", next_seq=1),
        raw(first_seq=2**63, next_seq=2**63),
        raw(b"x" * (MAX_LINE_BYTES + 1), next_seq=1),
        raw(b"\n" + b"x" * (MAX_LINE_BYTES + 1) + b"\n", next_seq=2),
    ],
    ids=["too few", "too many", "backwards", "empty chunk", "huge", "long line", "long line behind another"],
)
def test_numbers_must_agree_with_lines(bad: LogBatch) -> None:
    with pytest.raises(InvalidSpec):
        check(bad)


def test_sound_batches_pass() -> None:
    check(batch(3, 40))
    check(raw(b"no newline", next_seq=1))
    check(raw(b"x\n" * MAX_LINE_BYTES, next_seq=MAX_LINE_BYTES))
    check(raw(first_seq=4, next_seq=4, end=True))
