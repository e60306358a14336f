"""Log lines on the screen: a job's output to stdout, its errors to stderr, and whose they are."""

import sys
from typing import Annotated, TextIO

from msgspec import Meta, Struct

from gpuyard.cli import terminal
from gpuyard.contracts.log import OUT, LogLine


class LineView(Struct, frozen=True, tag="log", tag_field="type"):
    """A line as `--json` prints it."""

    job: str
    attempt: int
    rank: int
    seq: int
    stream: Annotated[str, Meta(description="`out` or `err`.")]
    at_s: float
    text: Annotated[str, Meta(description="Bytes that are not UTF-8 are replaced.")]


class LinePrinter:
    """Prints lines one by one, each at once.

    Args:
        prefix: Begin lines with their rank.
        as_json: Print objects instead, all to stdout.

    """

    def __init__(self, *, prefix: bool, as_json: bool = False) -> None:
        self._prefix = prefix
        self._as_json = as_json

    def print(self, line: LogLine) -> None:
        """Print one line; bytes go out as they are unless a terminal reads them."""
        if self._as_json:
            terminal.print_json(_view(line))
            return
        stream = sys.stdout if line.stream == OUT else sys.stderr
        stream.buffer.write(self._mark(line.rank, stream) + _visible(line.text, stream) + b"\n")
        stream.buffer.flush()

    def _mark(self, rank: int, stream: TextIO) -> bytes:
        if not self._prefix:
            return b""
        colour = terminal.RANK_COLOURS[rank % len(terminal.RANK_COLOURS)]
        return terminal.paint(f"[{rank}]", colour, stream).encode() + b" "


def _visible(text: bytes, stream: TextIO) -> bytes:
    if not stream.isatty():
        return text
    return terminal.harmless(text, keep_colour=terminal.has_colour(stream)).encode()


def _view(line: LogLine) -> LineView:
    return LineView(
        line.job,
        line.attempt,
        line.rank,
        line.seq,
        "out" if line.stream == OUT else "err",
        line.at_s,
        line.text.decode(errors="replace"),
    )
