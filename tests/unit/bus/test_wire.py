import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.bus.wire import (
    check_pattern,
    check_size,
    check_subject,
    matches,
    parse_headers,
    publish_command,
    render_headers,
    whole_ttl_s,
)
from gpuyard.contracts.errors import InvalidSpec

TOKENS = st.text(alphabet="abc$_-", min_size=1, max_size=3)
SUBJECTS = st.lists(TOKENS, min_size=1, max_size=5).map(".".join)


@pytest.mark.parametrize(
    ("pattern", "subject", "fits"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        (">", "a.b", True),
        ("*.*.>", "a.b.c", True),
        ("*.*.>", "a.b", False),
    ],
)
def test_matching(pattern: str, subject: str, fits: bool) -> None:
    assert matches(pattern, subject) is fits


@given(SUBJECTS)
def test_every_subject_fits_itself_its_stars_and_the_rest(subject: str) -> None:
    check_subject(subject)
    tokens = subject.split(".")
    stars = ".".join("*" for _ in tokens)
    for pattern in (subject, stars, ">"):
        check_pattern(pattern)
        assert matches(pattern, subject)
    assert not matches(f"{stars}.*", subject)
    assert not matches(f"{stars}.>", subject)


@pytest.mark.parametrize("pattern", ["", "a..b", "a.>.b", "a*", ">.a", ".a", "a.", "a b", "a>", "a\n"])
def test_impossible_patterns(pattern: str) -> None:
    with pytest.raises(InvalidSpec):
        check_pattern(pattern)


@given(
    st.dictionaries(
        st.text(alphabet="Nats-Msg_Id.9", min_size=1, max_size=20),
        st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])).map(str.strip),
        min_size=1,
    )
)
def test_headers_come_back_as_they_were(headers: dict[str, str]) -> None:
    status, parsed = parse_headers(render_headers(headers))
    assert status == ""
    assert {key: value.strip() for key, value in parsed.items()} == headers


@pytest.mark.parametrize(
    "headers", [{"a b": ""}, {"": ""}, {"a:": ""}, {"a": "x\ny"}, {"a": "x\ry"}, {"ä": ""}]
)
def test_headers_that_would_break_out_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidSpec):
        render_headers(headers)


def test_no_headers_take_no_room() -> None:
    assert render_headers({}) == render_headers(None) == b""
    assert publish_command("a", b"xy", reply="r") == b"PUB a r 2\r\nxy\r\n"


def test_a_status_line_with_and_without_headers() -> None:
    assert parse_headers(b"NATS/1.0 404 No Messages\r\n\r\n") == ("404", {})
    assert parse_headers(b"NATS/1.0 503\r\n\r\n") == ("503", {})
    status, headers = parse_headers(b"NATS/1.0 408 Request Timeout\r\nNats-Pending-Messages: 3\r\n\r\n")
    assert (status, headers) == ("408", {"Nats-Pending-Messages": "3"})
    assert parse_headers(b"") == ("", {})


def test_sizes_count_headers() -> None:
    check_size(b"12", b"345", 5)
    with pytest.raises(InvalidSpec, match="6 bytes"):
        check_size(b"12", b"3456", 5)


@pytest.mark.parametrize(("ttl_s", "whole"), [(0.01, 1), (1.0, 1), (1.2, 2), (3, 3)])
def test_times_to_live_are_whole_seconds(ttl_s: float, whole: int) -> None:
    assert whole_ttl_s(ttl_s) == whole
