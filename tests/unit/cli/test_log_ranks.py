import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.cli.log_ranks import parse_ranks, render_ranks
from gpuyard.contracts.errors import InvalidSpec


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("0", {0}), ("0,2-5", {0, 2, 3, 4, 5}), (" 1 , 3 - 4 ", {1, 3, 4}), ("7-7,7", {7}), ("65535", {65535})],
)
def test_ranks_are_read(text: str, ranks: set[int]) -> None:
    assert parse_ranks(text) == ranks


@pytest.mark.parametrize(
    "text",
    ["", ",", "a", "1-", "-1", "5-2", "1--2", "999999", "0-65536", "²", "1,,2", "0-18446744073709551616"],
)
def test_what_are_no_ranks_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec):
        parse_ranks(text)


@pytest.mark.parametrize(("ranks", "text"), [([3], "3"), ([0, 1, 2, 7], "0-2,7"), ([5, 4, 4], "4-5")])
def test_ranks_are_written_as_ranges(ranks: list[int], text: str) -> None:
    assert render_ranks(ranks) == text


@given(st.sets(st.integers(0, 65535), min_size=1, max_size=30))
def test_what_is_written_can_be_read(ranks: set[int]) -> None:
    assert parse_ranks(render_ranks(ranks)) == ranks
