from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.cli.log_fold import SAME_TIME_S, Fold, Row
from gpuyard.cli.log_ranks import render_ranks
from gpuyard.contracts.log import OUT, LogLine


def a_line(rank: int, text: str, at_s: float = 0.0, *, stream: int = OUT, seq: int = 0) -> LogLine:
    return LogLine("train", 1, rank, seq, stream, at_s, text.encode())


def folded(*lines: LogLine, ranks: int) -> list[str]:
    """Rows as they are shown, of lines that are all there is."""
    fold = Fold(ranks)
    rows: list[Row] = []
    for line in lines:
        fold.add(line, 0.0)
        rows += fold.rows(0.0)
    return [shown(row) for row in (*rows, *fold.rest())]


def shown(row: Row) -> str:
    return f"{'!' if row.differs else ''}{render_ranks(row.ranks)} {row.lines[0].text.decode()}"


def printed(*ranks: str) -> list[LogLine]:
    """The first string is what rank 0 prints, a letter a line and a second, and so on; rank after rank."""
    return [
        a_line(rank, letter, float(seq), seq=seq)
        for rank, letters in enumerate(ranks)
        for seq, letter in enumerate(letters)
        if letter != "."
    ]


@pytest.mark.parametrize(
    ("ranks", "rows"),
    [
        (("abc", "abc", "abc"), ["0-2 a", "0-2 b", "0-2 c"]),
        (("abc", "axc", "abc"), ["0-2 a", "0,2 b", "!1 x", "0-2 c"]),
        (("aebc", "abc", "abc"), ["0-2 a", "!0 e", "0-2 b", "0-2 c"]),
        (("abc", "ac", "abc"), ["0-2 a", "0,2 b", "0-2 c"]),
        (("a1b", "a2b", "a3b"), ["0-2 a", "0 1", "!1 2", "2 3", "0-2 b"]),
        (("axbxc", "aybyc", "axbxc"), ["0-2 a", "0,2 x", "!1 y", "0-2 b", "0,2 x", "!1 y", "0-2 c"]),
        (("aaa", "aa", "a"), ["0-2 a", "0-1 a", "!0 a"]),
        (("ab", "ba"), ["0 a", "0-1 b", "1 a"]),
        (("abc", "", ""), ["0 a", "0 b", "0 c"]),
        (("abc", "aeb"), ["0-1 a", "!1 e", "0-1 b", "!0 c"]),
        (("aTTb", "ab", "ab"), ["0-2 a", "!0 T", "0 T", "0-2 b"]),
        (("a.b", "aTU", "a.b"), ["0-2 a", "!1 T", "0,2 b", "!1 U"]),
        (("xyab", "..ab", "..ab"), ["!0 x", "0 y", "0-2 a", "0-2 b"]),
    ],
)
def test_what_ranks_print_alike_is_one_row(ranks: tuple[str, ...], rows: list[str]) -> None:
    assert folded(*printed(*ranks), ranks=len(ranks)) == rows


def test_numbers_are_not_taken_for_each_other() -> None:
    lines = [a_line(0, "loss=0.51"), a_line(1, "loss=0.52")]
    assert folded(*lines, ranks=2) == ["0 loss=0.51", "!1 loss=0.52"]


def test_output_and_errors_are_not_the_same() -> None:
    assert len(folded(a_line(0, "a"), a_line(1, "a", stream=1), ranks=2)) == 2


@pytest.mark.parametrize(("apart_s", "row_count"), [(SAME_TIME_S, 1), (SAME_TIME_S + 1, 2)])
def test_lines_far_apart_are_not_the_same_event(apart_s: float, row_count: int) -> None:
    assert len(folded(a_line(0, "---", 0.0), a_line(1, "---", apart_s), ranks=2)) == row_count
    between = (a_line(1, "x", 1.0), a_line(1, "---", apart_s))
    rows = folded(a_line(0, "---", 0.0), *between, ranks=2)
    assert len(rows) == 1 + row_count
    assert rows[0].endswith("x" if row_count == 1 else "---")


def test_a_row_of_all_ranks_waits_for_nobody() -> None:
    fold = Fold(2, hold_s=1.0)
    fold.add(a_line(0, "a"), 0.0)
    assert list(fold.rows(0.5)) == []
    fold.add(a_line(1, "a"), 0.5)
    assert [shown(row) for row in fold.rows(0.5)] == ["0-1 a"]


def test_after_the_hold_a_row_is_shown_without_the_late() -> None:
    fold = Fold(3, hold_s=1.0)
    fold.add(a_line(0, "a"), 0.0)
    fold.add(a_line(1, "a"), 0.8)
    assert list(fold.rows(0.99)) == []
    assert [shown(row) for row in fold.rows(1.0)] == ["0-1 a"]
    fold.add(a_line(2, "a"), 1.1)
    assert [shown(row) for row in fold.rest()] == ["2 a"]


def test_a_text_waits_for_a_rank_that_comes_to_it() -> None:
    fold = Fold(2, hold_s=1.0)
    fold.add(a_line(0, "b", 1.0), 0.0)
    fold.add(a_line(1, "a", 2.0), 0.9)
    fold.add(a_line(1, "b", 3.0), 0.9)
    assert list(fold.rows(1.5)) == []
    assert [shown(row) for row in fold.rows(1.9)] == ["!1 a", "0-1 b"]


def test_the_only_one_that_says_something_is_marked() -> None:
    fold = Fold(3, hold_s=1.0)
    for rank in range(3):
        fold.add(a_line(rank, "step"), 0.0)
    fold.add(a_line(1, "Traceback", 1.0), 0.0)
    assert [shown(row) for row in fold.rows(1.0)] == ["0-2 step", "!1 Traceback"]


def test_the_next_that_differs_is_marked_only_after_most_agreed() -> None:
    rows = folded(*printed("abcde", "axyde", "auvde", "abcze"), ranks=4)
    assert [row for row in rows if row.startswith("!")] == ["!1 x", "!3 z"]


RANKS = 4
TEXTS = st.sampled_from(["a", "b", "c", ""])
LINES = st.lists(
    st.tuples(st.integers(0, RANKS - 1), TEXTS, st.floats(0, 100), st.integers(0, 1), st.floats(0, 2)),
    max_size=60,
)


def numbered(drawn: Sequence[tuple[int, str, float, int, float]]) -> list[tuple[LogLine, float]]:
    """Lines of ranks in any order, with any clocks, and how long after each other they come."""
    return [
        (a_line(rank, text, at_s, stream=stream, seq=seq), later_s)
        for seq, (rank, text, at_s, stream, later_s) in enumerate(drawn)
    ]


@given(LINES, st.none() | st.floats(0, 5), st.integers(0, 20))
def test_unfolding_gives_back_every_line_in_order(
    drawn: list[tuple[int, str, float, int, float]], hold_s: float | None, most_lines: int
) -> None:
    fold = Fold(RANKS, hold_s=hold_s, most_lines=most_lines)
    rows: list[Row] = []
    lines: list[LogLine] = []
    now_s = 0.0
    for line, later_s in numbered(drawn):
        now_s += later_s
        fold.add(line, now_s)
        lines.append(line)
        rows += fold.rows(now_s)
        assert len(lines) - sum(len(row.lines) for row in rows) <= most_lines
    rows += fold.rest()
    for rank in range(RANKS):
        unfolded = [line for row in rows for line in row.lines if line.rank == rank]
        assert unfolded == [line for line in lines if line.rank == rank]
    for row in rows:
        assert len({(line.stream, line.text) for line in row.lines}) == 1
        assert [line.rank for line in row.lines] == sorted(row.ranks)
    assert list(fold.rest()) == []


@given(LINES, st.floats(0.1, 5))
def test_nothing_waits_much_longer_than_the_hold(
    drawn: list[tuple[int, str, float, int, float]], hold_s: float
) -> None:
    fold = Fold(RANKS, hold_s=hold_s)
    for line, _ in numbered(drawn):
        fold.add(line, 0.0)
        list(fold.rows(0.0))
    list(fold.rows(hold_s))
    assert list(fold.rest()) == []


@given(st.lists(TEXTS, max_size=20), st.randoms(use_true_random=False))
def test_ranks_that_print_the_same_fold_however_they_interleave(texts: list[str], random: Random) -> None:
    everybody = frozenset(range(RANKS))
    left = {rank: list(enumerate(texts)) for rank in everybody}
    fold = Fold(RANKS)
    rows: list[Row] = []
    while waiting := [rank for rank in left if left[rank]]:
        rank = random.choice(waiting)
        seq, text = left[rank].pop(0)
        fold.add(a_line(rank, text, float(seq) / 100, seq=seq), 0.0)
        rows += fold.rows(0.0)
    assert [(row.ranks, row.lines[0].text.decode()) for row in rows] == [(everybody, text) for text in texts]
    assert not any(row.differs for row in rows)
