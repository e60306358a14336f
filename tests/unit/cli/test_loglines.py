"""What stands on the screen, and what goes into a pipe."""

import base64
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

import pytest

from gpuyard.cli.log_folded import FoldPrinter
from gpuyard.cli.loglines import JsonPrinter, LinePrinter
from gpuyard.contracts.log import ERR, OUT, LogLine

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

HOSTILE = b"\x1b]0;owned\x07\x1b[31mred \x1b[2J\xff"


class Both(io.RawIOBase):
    """Where stdout and stderr end up together."""

    def __init__(self) -> None:
        self.got = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: "ReadableBuffer") -> int:
        self.got += bytes(data)
        return len(bytes(data))


class Stream(io.TextIOWrapper):
    is_terminal = True

    def isatty(self) -> bool:
        return self.is_terminal


@contextmanager
def reader(*, is_terminal: bool = True) -> Iterator[bytearray]:
    """What a terminal, or a pipe, that reads both streams gets."""
    both = Both()
    out, err = (Stream(io.BufferedWriter(both)) for _ in range(2))
    out.is_terminal = err.is_terminal = is_terminal
    with redirect_stdout(out), redirect_stderr(err):
        yield both.got


@pytest.fixture(autouse=True)
def colourful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def a_line(text: bytes, *, rank: int = 0, stream: int = OUT, job: str = "train", attempt: int = 1) -> LogLine:
    return LogLine(job, attempt, rank, 0, stream, 4.0, text)


def test_on_a_terminal_only_colour_is_obeyed_and_ends_with_the_line() -> None:
    with reader() as screen:
        LinePrinter(prefix=True).print([a_line(HOSTILE), a_line(b"next", rank=1)])
        assert bytes(screen).splitlines() == [
            b"\x1b[36m[0]\x1b[0m \\x1b]0;owned\\x07\x1b[31mred \\x1b[2J\\xff\x1b[0m",
            b"\x1b[32m[1]\x1b[0m next",
        ]


def test_without_colours_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with reader() as screen:
        LinePrinter(prefix=True).print([a_line(HOSTILE)])
        assert bytes(screen) == b"[0] \\x1b]0;owned\\x07red \\x1b[2J\\xff\n"


def test_a_progress_bar_is_shown_as_it_was_last() -> None:
    with reader() as screen:
        LinePrinter(prefix=False).print([a_line(b" 10%|#   \r 90%|### \r100%|####")])
        assert bytes(screen) == b"100%|####\n"
    with reader(is_terminal=False) as pipe:
        LinePrinter(prefix=False).print([a_line(b" 10%\r100%")])
        assert bytes(pipe) == b" 10%\r100%\n"


def test_a_pipe_gets_the_bytes() -> None:
    with reader(is_terminal=False) as pipe:
        LinePrinter(prefix=True).print([a_line(HOSTILE)])
        assert bytes(pipe) == b"[0] " + HOSTILE + b"\n"


def test_a_terminal_gets_them_if_it_wants_them_raw() -> None:
    with reader() as screen:
        LinePrinter(prefix=False, raw=True).print([a_line(HOSTILE)])
        assert bytes(screen) == HOSTILE + b"\n"


def test_output_and_errors_appear_in_their_order() -> None:
    with reader() as screen:
        LinePrinter(prefix=False).print([a_line(b"1"), a_line(b"2", stream=ERR), a_line(b"3")])
        assert bytes(screen) == b"1\n2\n3\n"


def test_jobs_are_told_apart() -> None:
    with reader(is_terminal=False) as pipe:
        lines = [a_line(b"a", rank=3), a_line(b"b", job="eval", attempt=2)]
        LinePrinter(prefix=True, jobs=True).print(lines)
        LinePrinter(prefix=False, jobs=True).print(lines)
        assert bytes(pipe) == b"[train 3] a\n[eval/2 0] b\n[train] a\n[eval/2] b\n"


def test_json_has_bytes_that_are_no_text_beside_it() -> None:
    with reader(is_terminal=False) as pipe:
        JsonPrinter().print([a_line("ä\u202e".encode()), a_line(b"\xff", stream=ERR)])
        text, raw = (json.loads(line) for line in bytes(pipe).splitlines())
        assert "\u202e" not in bytes(pipe).decode()
        assert (text["text"], "text_base64" in text) == ("ä\u202e", False)
        assert (raw["text"], base64.b64decode(raw["text_base64"])) == ("\ufffd", b"\xff")
        assert list(raw) == ["type", "job", "attempt", "rank", "seq", "stream", "at_s", "text", "text_base64"]


def test_who_differs_first_is_marked() -> None:
    with reader() as screen:
        printer = FoldPrinter({"train": 3}, follow=False)
        printer.print([a_line(b"yes"), a_line(b"yes", rank=1), a_line(b"no", rank=2)])
        assert not screen
        printer.end()
        assert bytes(screen) == b"\x1b[1m  [0-1 x2]\x1b[0m yes\n\x1b[31m! [2]\x1b[0m no\n"


def test_jobs_and_attempts_fold_each_for_itself() -> None:
    with reader(is_terminal=False) as pipe:
        printer = FoldPrinter({"train": 2, "eval": 2}, follow=False)
        printer.print([a_line(b"a"), a_line(b"a", job="eval", rank=1)])
        printer.print([a_line(b"a", rank=1, attempt=2)])
        printer.print([a_line(b"a", attempt=2)])
        printer.end()
        assert bytes(pipe) == b"  [train 0] a\n  [train/2 0-1 x2] a\n  [eval 1] a\n"
