"""Log lines on the screen: a job's output to stdout, its errors to stderr, and whose they are.

Where a terminal reads, lines are made harmless; anything else gets the bytes as they were printed.
"""

import base64
import sys
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, TextIO

from msgspec import Meta, Struct

from gpuyard.cli import terminal
from gpuyard.contracts.log import OUT, LogLine

Lines = Iterable[LogLine]


class LineView(Struct, frozen=True, omit_defaults=True, tag="log", tag_field="type"):
    """A line as `--json` prints it."""

    job: str
    attempt: int
    rank: int
    seq: int
    stream: Annotated[str, Meta(description="`out` or `err`.")]
    at_s: float
    text: Annotated[str, Meta(description="Bytes that are not UTF-8 are replaced.")]
    text_base64: Annotated[str, Meta(description="The bytes, if they are not UTF-8.")] = ""


class LinePrinter:
    """Prints lines as they come.

    Args:
        prefix: Begin lines with their rank.
        jobs: Begin lines with their job, too.
        raw: Let terminals have the bytes as they are.

    """

    def __init__(self, *, prefix: bool, jobs: bool = False, raw: bool = False) -> None:
        self._prefix = prefix
        self._jobs = jobs
        self._screens = Screens(raw=raw)

    def print(self, lines: Lines) -> None:
        """Print them at once."""
        for line in lines:
            mark, colour = self._mark(line)
            self._screens.write(line, mark, colour)
        self._screens.flush()

    def end(self) -> None:
        """Nothing is kept back."""

    def _mark(self, line: LogLine) -> tuple[str, str]:
        words = [job_mark(line)] if self._jobs else []
        words += [str(line.rank)] if self._prefix else []
        return f"[{' '.join(words)}] " if words else "", terminal.rank_colour(line.rank)


class JsonPrinter:
    """Prints lines as objects, all to stdout."""

    def print(self, lines: Lines) -> None:
        """Print them at once."""
        for line in lines:
            sys.stdout.write(terminal.json_line(_view(line)))
        sys.stdout.flush()

    def end(self) -> None:
        """Nothing is kept back."""


class Screens:
    """Stdout and stderr. What is written appears in that order, even if both are the same terminal."""

    def __init__(self, *, raw: bool = False) -> None:
        self._of_stream = {True: _Screen(sys.stdout, raw=raw), False: _Screen(sys.stderr, raw=raw)}
        self._newest = self._of_stream[True]

    def write(self, line: LogLine, mark: str, colour: str) -> None:
        """Write a line behind a mark in that colour, to where it belongs."""
        screen = self._of_stream[line.stream == OUT]
        if screen is not self._newest:
            self._newest.flush()
            self._newest = screen
        screen.write(line.text, mark, colour)

    def flush(self) -> None:
        self._newest.flush()


class _Screen:
    """A stream, and what it shows."""

    def __init__(self, stream: TextIO, *, raw: bool) -> None:
        self._stream = stream
        self._raw = raw

    @cached_property
    def _is_terminal(self) -> bool:
        return self._stream.isatty()

    @cached_property
    def _has_colour(self) -> bool:
        return terminal.has_colour(self._stream)

    def write(self, text: bytes, mark: str, colour: str) -> None:
        if self._has_colour and mark:
            mark = terminal.coloured(mark.rstrip(), colour) + " "
        if self._is_terminal and not self._raw:
            text = terminal.harmless(text, keep_colour=self._has_colour).encode()
        self._stream.buffer.write(mark.encode() + text + b"\n")

    def flush(self) -> None:
        self._stream.buffer.flush()


def job_mark(line: LogLine) -> str:
    """`train-ab12`, or `train-ab12/2` of its second attempt."""
    return line.job if line.attempt == 1 else f"{line.job}/{line.attempt}"


def _view(line: LogLine) -> LineView:
    text = line.text.decode(errors="replace")
    return LineView(
        line.job,
        line.attempt,
        line.rank,
        line.seq,
        "out" if line.stream == OUT else "err",
        line.at_s,
        text,
        "" if text.encode() == line.text else base64.b64encode(line.text).decode(),
    )
