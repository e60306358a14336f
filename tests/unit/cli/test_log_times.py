import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.cli.log_times import parse_time
from gpuyard.contracts.errors import InvalidSpec

NOW_S = 1_750_000_000.0


@pytest.fixture(autouse=True)
def in_nepal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Five hours and three quarters before Greenwich."""
    monkeypatch.setenv("TZ", "NPT-5:45")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "ago_s"),
    [
        ("0s", 0),
        ("30s", 30),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("1w", 604800),
        ("1h30m", 5400),
        ("1.5h", 5400),
    ],
)
def test_how_long_ago(text: str, ago_s: float) -> None:
    assert parse_time(text, NOW_S, "--since") == NOW_S - ago_s


def test_longer_ago_than_time_itself_is_its_beginning() -> None:
    assert parse_time("999999999d", NOW_S, "--since") == 0.0


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2025-01-31", datetime(2025, 1, 30, 18, 15, tzinfo=UTC)),
        ("2025-01-31 14:05", datetime(2025, 1, 31, 8, 20, tzinfo=UTC)),
        ("2025-01-31T14:05:06.5", datetime(2025, 1, 31, 8, 20, 6, 500_000, tzinfo=UTC)),
        ("2025-01-31T14:05Z", datetime(2025, 1, 31, 14, 5, tzinfo=UTC)),
        (" 2025-01-31T14:05+02:00 ", datetime(2025, 1, 31, 12, 5, tzinfo=UTC)),
        ("20250131", datetime(2025, 1, 30, 18, 15, tzinfo=UTC)),
    ],
)
def test_dates_are_local_unless_they_say_otherwise(text: str, utc: datetime) -> None:
    assert parse_time(text, NOW_S, "--since") == utc.timestamp()


def test_seconds_since_1970() -> None:
    assert parse_time("1750000000", NOW_S, "--since") == 1_750_000_000.0
    assert parse_time("1750000000.25", NOW_S, "--since") == 1_750_000_000.25


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "10x",
        "m",
        "-10m",
        "10 m",
        "yesterday",
        "2025-02-30",
        "nan",
        "inf",
        "1e9",
        "²m",
        "0001-01-01",
    ],
)
def test_what_is_no_time_is_refused_in_words(text: str) -> None:
    with pytest.raises(InvalidSpec, match="--until") as refused:
        parse_time(text, NOW_S, "--until")
    assert "`10m`" in refused.value.hint


@pytest.mark.parametrize("text", ["1750000000000", "9" * 400])
def test_milliseconds_are_not_taken_for_seconds(text: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_time(text, NOW_S, "--since")
    assert "seconds" in refused.value.hint


@given(st.text(max_size=30) | st.text("0123456789.:-+smhdwTZ ", max_size=20))
def test_any_text_is_a_time_or_refused(text: str) -> None:
    with suppress(InvalidSpec):
        assert isinstance(parse_time(text, NOW_S, "--since"), float)
