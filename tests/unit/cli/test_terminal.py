import io
import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.cli import terminal
from gpuyard.cli.terminal import harmless, table


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def a_colour_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("raw", "coloured", "plain"),
    [
        (b"hello", "hello", "hello"),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m", "red"),
        (b"\x1b[38;5;12mblue", "\x1b[38;5;12mblue\x1b[0m", "blue"),
        (b"\x1b[38:2::1:2:3mrgb", "\x1b[38:2::1:2:3mrgb\x1b[0m", "rgb"),
        (b"\x1b[01;31m\x1b[Kerror\x1b[m\x1b[K", "\x1b[01;31merror\x1b[m\x1b[0m", "error"),
        ("ümlaut 漢字".encode(), "ümlaut 漢字", "ümlaut 漢字"),
        (b"tab\there", "tab\there", "tab\there"),
        (b"10%\r20%\r30%", "30%", "30%"),
        (b"windows\r", "windows", "windows"),
    ],
)
def test_colour_gets_through(raw: bytes, coloured: str, plain: str) -> None:
    assert harmless(raw, keep_colour=True) == coloured
    assert harmless(raw, keep_colour=False) == plain


@pytest.mark.parametrize("keep_colour", [True, False])
@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\x1b[2J\x1b[Hgone", r"\x1b[2J\x1b[Hgone"),
        (b"\x1b[3A\x1b[2Kup", r"\x1b[3Aup"),
        (b"\x1b]0;title\x07text", r"\x1b]0;title\x07text"),
        (b"\x1b]52;c;aGk=\x1b\\clipboard", r"\x1b]52;c;aGk=\x1b\clipboard"),
        (b"\x1b]8;;http://x\x1b\\link", r"\x1b]8;;http://x\x1b\link"),
        (b"\x1bPq#0\x1b\\sixel", r"\x1bPq#0\x1b\sixel"),
        (b"\x1b]never ends", r"\x1b]never ends"),
        (b"\x1bc reset", r"\x1bc reset"),
        (b"\x1b[?1049h\x1b[>4;2m", r"\x1b[?1049h\x1b[>4;2m"),
        (b"\x1b[" + b"1" * 70 + b"m", r"\x1b[" + "1" * 70 + "m"),
        (b"the end of a piece\x1b", r"the end of a piece\x1b"),
        (b"[31mthe next piece", "[31mthe next piece"),
        (b"a\x07b\x08c\x00d\x7fe", r"a\x07b\x08c\x00d\x7fe"),
        (b"line\x0b\x0cfeeds\n", r"line\x0b\x0cfeeds\x0a"),
        (b"\x9b2J\xff\xfe", r"\x9b2J\xff\xfe"),
        ("c1 \u009b2J\u0085".encode(), r"c1 \u009b2J\u0085"),
        ("a\u202etxt.exe\u2066b\u2069".encode(), r"a\u202etxt.exe\u2066b\u2069"),
    ],
)
def test_nothing_else_steers_a_terminal(raw: bytes, shown: str, *, keep_colour: bool) -> None:
    assert harmless(raw, keep_colour=keep_colour) == shown


HOSTILE = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\x1b", b"[", b"]", b"m", b"1", b";", b"K", b"\x07", b"\x9b", b"\xc2", b"\r", b"\\"]
        ),
        st.binary(max_size=6),
        st.text(max_size=4).map(lambda text: text.encode(errors="replace")),
    ),
    max_size=16,
).map(b"".join)


def steering(shown: str) -> list[str]:
    """Characters that a terminal obeys."""
    return [char for char in shown if unicodedata.category(char) in ("Cc", "Zl", "Zp") and char != "\t"]


@given(HOSTILE)
def test_no_control_character_ever_gets_through(raw: bytes) -> None:
    assert not steering(harmless(raw, keep_colour=False))


@given(HOSTILE)
def test_with_colour_kept_every_escape_is_a_colour_and_ends_with_the_line(raw: bytes) -> None:
    shown = harmless(raw, keep_colour=True)
    assert not steering(re.sub(r"\x1b\[[0-9;:]*m", "", shown))
    assert "\x1b" not in shown or shown.endswith("\x1b[0m")


@given(HOSTILE)
def test_json_steers_no_terminal_and_says_the_same(raw: bytes) -> None:
    text = raw.decode(errors="replace")
    stream = io.StringIO()
    terminal.print_json({"text": text}, stream)
    assert not steering(stream.getvalue().removesuffix("\n"))
    assert json.loads(stream.getvalue()) == {"text": text}


def test_colour_only_where_it_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal.paint("x", "red", io.StringIO()) == "x"
    assert terminal.paint("x", "red", Screen()) == "\x1b[31mx\x1b[0m"
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.paint("x", "red", Screen()) == "x"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.paint("x", "red", Screen()) == "x"


def test_tables_are_aligned() -> None:
    assert table(("A", "LONGER"), [("wide cell", "x"), ("y", "")]) == "A          LONGER\nwide cell  x\ny"
