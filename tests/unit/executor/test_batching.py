"""Whatever a rank prints and however it is cut: nothing lost, nothing twice, numbers without gap."""

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.log import LogBatch, LogChunk, lines_of
from gpuyard_executor.core.batching import (
    HELD_S,
    IDLE_S,
    MAX_BATCH_BYTES,
    MAX_LINE_BYTES,
    Batcher,
    Cut,
    Position,
    covers,
    rebuild,
)

FOREVER = float("inf")
FRAME_BYTES = 13


class Piece(NamedTuple):
    stream: int
    at_s: float
    data: bytes
    offset: int
    next_offset: int


def pieces(*printed: tuple[int, bytes]) -> list[Piece]:
    """Output as it would lie in a spool."""
    found: list[Piece] = []
    for number, (stream, data) in enumerate(printed):
        offset = found[-1].next_offset if found else 0
        found.append(Piece(stream, float(number), data, offset, offset + FRAME_BYTES + len(data)))
    return found


def since(chunks: Sequence[Piece], position: Position) -> list[Piece]:
    return [chunk for chunk in chunks if chunk.offset >= position.offset]


def joined(cuts: Sequence[Cut], stream: int) -> bytes:
    return b"".join(chunk.data for cut in cuts for chunk in cut.chunks if chunk.stream == stream)


def run(chunks: Sequence[Piece], waits_s: Sequence[float], position: Position = Position()) -> list[Cut]:  # noqa: B008
    """Feed the chunks one by one, waiting after each, and take every batch there is."""
    batcher, now_s, cuts = Batcher(position), 0.0, []
    for number, chunk in enumerate(chunks):
        batcher.add(chunk, now_s)
        now_s += waits_s[number % len(waits_s)] if waits_s else 0.0
        while cut := batcher.cut(now_s):
            cuts.append(cut)
    while cut := batcher.cut(FOREVER):
        cuts.append(cut)
    return cuts


PRINTED = st.lists(
    st.tuples(st.integers(0, 1), st.text("ab\n\r", min_size=1, max_size=12).map(str.encode)), max_size=25
)
WAITS = st.lists(st.sampled_from([0.0, 0.05, IDLE_S, HELD_S]), min_size=1, max_size=8)


@settings(max_examples=200, deadline=None)
@given(PRINTED, WAITS)
def test_every_byte_once_and_numbers_without_gap(
    printed: list[tuple[int, bytes]], waits_s: list[float]
) -> None:
    cuts = run(pieces(*printed), waits_s)
    for stream in (0, 1):
        assert joined(cuts, stream) == b"".join(data for where, data in printed if where == stream)
    seq = 0
    for cut in cuts:
        batch = LogBatch("j", 1, 0, seq, cut.after.next_seq, cut.chunks)
        numbers = [line.seq for line in lines_of(batch)]
        assert numbers == list(range(seq, cut.after.next_seq)), "readers count as the executor does"
        assert numbers, "no empty batch"
        seq = cut.after.next_seq


@settings(max_examples=200, deadline=None)
@given(PRINTED, WAITS)
def test_a_batch_can_be_rebuilt_from_its_positions(
    printed: list[tuple[int, bytes]], waits_s: list[float]
) -> None:
    chunks = pieces(*printed)
    before = Position()
    for cut in run(chunks, waits_s):
        behind = since(chunks, before)
        assert rebuild(before, cut.after, behind) == cut.chunks
        needed = next(n for n in range(len(behind) + 1) if covers(cut.after, behind[:n]))
        assert rebuild(before, cut.after, behind[:needed]) == cut.chunks
        before = cut.after


@settings(max_examples=200, deadline=None)
@given(PRINTED, WAITS, WAITS)
def test_reading_goes_on_from_any_position(
    printed: list[tuple[int, bytes]], waits_s: list[float], other_s: list[float]
) -> None:
    chunks = pieces(*printed)
    cuts = run(chunks, waits_s)
    for number, cut in enumerate(cuts, 1):
        rest = run(since(chunks, cut.after), other_s, cut.after)
        for stream in (0, 1):
            assert joined(cuts[:number], stream) + joined(rest, stream) == joined(cuts, stream)


@given(st.lists(st.integers(1, 3 * MAX_LINE_BYTES), max_size=6), st.integers(0, 1))
@settings(max_examples=30, deadline=None)
def test_batches_stay_small_enough_for_a_message(lengths: list[int], newline: int) -> None:
    text = b"".join(b"x" * length + b"\n" * newline for length in lengths)
    printed = [(n % 2, text[n * 65536 : (n + 1) * 65536]) for n in range(-(-len(text) // 65536))]
    cuts = run(pieces(*printed), [0.0])
    assert sum(len(chunk.data) for cut in cuts for chunk in cut.chunks) == len(text)
    for cut in cuts:
        assert sum(len(chunk.data) + 32 for chunk in cut.chunks) < 900_000
        assert max(len(line) for chunk in cut.chunks for line in chunk.data.split(b"\n")) < 2 * MAX_LINE_BYTES


def test_a_line_waits_for_its_end() -> None:
    batcher = Batcher(Position())
    first, second = pieces((0, b"begin "), (0, b"end\nnext"))
    batcher.add(first, 0.0)
    assert batcher.cut(0.1) is None
    assert batcher.patience_s(0.1) == IDLE_S - 0.1
    batcher.add(second, 0.15)
    cut = batcher.cut(0.15)
    assert cut
    assert cut.chunks == (LogChunk(0, 1.0, b"begin end\n"),)
    assert cut.after == Position(second.offset, 4, 0, 1)


def test_a_line_that_stands_still_is_sent_as_it_is() -> None:
    batcher = Batcher(Position())
    (prompt,) = pieces((0, b"50%"))
    batcher.add(prompt, 0.0)
    cut = batcher.cut(IDLE_S)
    assert cut
    assert cut.chunks == (LogChunk(0, 0.0, b"50%"),)
    assert batcher.patience_s(IDLE_S) is None


def test_a_line_that_keeps_moving_is_sent_after_a_while() -> None:
    batcher, now_s = Batcher(Position()), 0.0
    for chunk in pieces(*[(0, b"\r10%")] * 9):
        batcher.add(chunk, now_s)
        assert batcher.cut(now_s) is None
        now_s += IDLE_S * 0.6
    cut = batcher.cut(now_s)
    assert cut
    assert cut.chunks[0].data == b"\r10%" * 9


def test_an_unfinished_line_of_one_stream_does_not_hold_up_the_other() -> None:
    batcher = Batcher(Position())
    out, err = pieces((0, b"wait"), (1, b"go\n"))
    batcher.add(out, 0.0)
    batcher.add(err, 0.0)
    cut = batcher.cut(0.0)
    assert cut
    assert cut.chunks == (LogChunk(1, 1.0, b"go\n"),)
    assert cut.after == Position(out.offset, 0, 3, 1), "the held line is read again after a crash"


def test_a_flood_is_cut_into_batches() -> None:
    line = b"x" * 1023 + b"\n"
    cuts = run(pieces(*[(0, line * 64)] * 40), [])
    sizes = [sum(len(chunk.data) for chunk in cut.chunks) for cut in cuts]
    assert sum(sizes) == 40 * 65536
    assert max(sizes) <= MAX_BATCH_BYTES


def test_time_spent_sending_does_not_finish_a_line() -> None:
    batcher = Batcher(Position())
    batcher.add(pieces((0, b"half"))[0], 0.0)
    batcher.forgive(60.0)
    assert batcher.cut(60.1) is None
    assert batcher.cut(60.0 + IDLE_S) is not None
