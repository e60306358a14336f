"""Writing for people and programs: stdout is data, stderr is narration, colour only where it is seen.

What jobs print is not trusted: on a terminal nothing but colour gets through.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import msgspec

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36, "dim": 2, "bold": 1}
RANK_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")
_COLOUR_SEQUENCE = r"\x1b\[[0-9;:]*m"
_SEQUENCES = re.compile(
    rf"(?P<colour>{_COLOUR_SEQUENCE})"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # cursor, screen and mode
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # titles, links, clipboard and other strings
    r"|\x1b[ -/]*[0-~]?"  # anything else that begins with escape
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f]"  # bare control characters, but not the tab
)


def has_colour(stream: TextIO) -> bool:
    """Whether colour would be seen and is wanted."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: TextIO) -> str:
    """Colour the text if the stream shows it."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if has_colour(stream) else text


def harmless(text: bytes, *, keep_colour: bool) -> str:
    """A line as a terminal may see it: colour at most, and only what a carriage return left standing."""
    visible = text.decode(errors="replace").rstrip("\r").rpartition("\r")[2]
    kept = _SEQUENCES.sub(lambda found: found["colour"] or "" if keep_colour else "", visible)
    return f"{kept}\x1b[0m" if keep_colour and "\x1b" in kept else kept


def narrate(text: str) -> None:
    """Tell the person something that is not data."""
    print(text, file=sys.stderr, flush=True)


def print_data(text: str) -> None:
    """Print what was asked for."""
    print(text, flush=True)


def print_json(value: Any, stream: TextIO | None = None) -> None:
    """Print one line of JSON."""
    print(msgspec.json.encode(value).decode(), file=stream or sys.stdout, flush=True)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Align columns with two spaces between them."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
