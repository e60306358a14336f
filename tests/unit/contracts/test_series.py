import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.job import MetricRule
from gpuyard.contracts.pattern import compiled
from gpuyard.contracts.series import NAME_PATTERN, Number, NumberRow, SeriesChunk, parse_rows, render_row

NAMES = st.from_regex(NAME_PATTERN.removeprefix("^").removesuffix(r"$(?!\n)"), fullmatch=True)
TOTALS = st.none() | st.integers(1, 10**15).map(float)
NUMBERS = st.builds(Number, NAMES, st.floats(allow_nan=False), TOTALS)
ROWS = st.lists(st.tuples(st.integers(0, 2**40), st.lists(NUMBERS, min_size=1, max_size=5)), max_size=5)


@given(ROWS)
def test_rows_come_back_as_they_were(rows: list[tuple[int, list[Number]]]) -> None:
    text = b"".join(render_row(seq, numbers) for seq, numbers in rows)
    assert text.count(b"\n") == len(rows)
    assert parse_rows(SeriesChunk(0, 5.0, text)) == [
        NumberRow(seq, 5.0, tuple(numbers)) for seq, numbers in rows
    ]


def test_a_row_is_short_and_readable() -> None:
    numbers = [Number("epoch", 1.0, 10.0), Number("loss", 0.125), Number("lr", 1e-05), Number("n", 1e20)]
    assert render_row(42, numbers) == b"42\tepoch=1/10\tloss=0.125\tlr=1e-05\tn=1e+20\n"


def test_nan_is_a_value() -> None:
    (row,) = parse_rows(
        SeriesChunk(0, 5.0, render_row(0, [Number("loss", math.nan), Number("x", -math.inf)]))
    )
    assert math.isnan(row.numbers[0].value)
    assert row.numbers[1].value == -math.inf


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(?P<value>", "missing"),
        (r"(?P<value>\d+)(?=x)", "invalid"),
        (r"reward (\d+)", "no group `value`"),
        (r"(?P<value>a{1000}{1000})", "repetition"),
    ],
)
def test_a_rule_that_can_not_work_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        MetricRule("reward", pattern)


def test_a_pattern_is_refused_in_our_words() -> None:
    with pytest.raises(InvalidSpec, match="can't be used") as caught:
        compiled("(")
    assert "RE2" in caught.value.hint


def test_patterns_take_linear_time() -> None:
    assert compiled(r"(a+)+$").search("a" * 100_000 + "b") is None
