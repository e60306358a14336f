import io
import re

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
        (b"\x1b[2J\x1b[Hgone", "gone", "gone"),
        (b"\x1b]0;title\x07text", "text", "text"),
        (b"\x1b]52;c;aGk=\x1b\\clipboard", "clipboard", "clipboard"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link", "link"),
        (b"\x1b]never ends", "", ""),
        (b"\x1bc reset", " reset", " reset"),
        (b"\x1b[?1049h\x1b[5;5Hx", "x", "x"),
        (b"a\x07b\x08c\x00d\x7fe", "abcde", "abcde"),
        (b"tab\there", "tab\there", "tab\there"),
        (b"10%\r20%\r30%", "30%", "30%"),
        (b"windows\r", "windows", "windows"),
        ("ümlaut 漢字".encode(), "ümlaut 漢字", "ümlaut 漢字"),
        (b"\xff\xfe", "\ufffd\ufffd", "\ufffd\ufffd"),
        ("c1 \u009b2J".encode(), "c1 2J", "c1 2J"),
        (b"\x1b", "", ""),
    ],
)
def test_only_colour_gets_through(raw: bytes, coloured: str, plain: str) -> None:
    assert harmless(raw, keep_colour=True) == coloured
    assert harmless(raw, keep_colour=False) == plain


@given(st.binary(max_size=60))
def test_no_control_character_ever_gets_through(raw: bytes) -> None:
    shown = harmless(raw, keep_colour=False)
    assert not [char for char in shown if char != "\t" and (ord(char) < 32 or 127 <= ord(char) < 160)]


@given(st.lists(st.sampled_from(["\x1b", "[", "]", "m", "1", ";", "\x07", "\\", "a", "P"]), max_size=12))
def test_with_colour_kept_every_escape_is_a_colour(pieces: list[str]) -> None:
    shown = harmless("".join(pieces).encode(), keep_colour=True)
    assert "\x1b" not in re.sub(r"\x1b\[[0-9;]*m", "", shown)


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
