"""Writing for people and programs: stdout is data, stderr is narration, colour only where it is seen.

What jobs print is not trusted: nothing in it but colour steers a terminal.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import msgspec

_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36, "dim": 2, "bold": 1}
_RANK_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red")
_SHOWN_OTHERWISE = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]{0,64}m)"
    r"|\x1b\[[0-2]?K"  # erase the line: left behind by many a colouring program
    r"|[\x00-\x08\x0a-\x1f\x7f-\x9f"  # control characters, but not the tab
    r"\u2028-\u202e\u2066-\u2069]"  # ends of lines and paragraphs, and what turns the direction of text
)
_UNSAFE_IN_JSON = re.compile(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def has_colour(stream: TextIO) -> bool:
    """Whether colour would be seen and is wanted."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, stream: TextIO) -> str:
    """Colour the text if the stream shows it."""
    return coloured(text, colour) if has_colour(stream) else text


def coloured(text: str, colour: str) -> str:
    """The text in a colour, which ends with it."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def harmless(text: bytes, *, keep_colour: bool) -> str:
    r"""A line as a terminal may see it: of a progress bar its last state, and no control but colour.

    Everything else that would steer the terminal is spelled out, as in `\x1b[2J`; so are bytes that are not
    UTF-8. Each character is judged for itself: there is no sequence that one could be in the middle of.
    """
    visible = text.decode(errors="backslashreplace").rstrip("\r").rpartition("\r")[2]
    if visible.isascii() and visible.isprintable():
        return visible
    kept = _SHOWN_OTHERWISE.sub(lambda found: _shown(found, keep_colour=keep_colour), visible)
    return f"{kept}\x1b[0m" if keep_colour and "\x1b" in kept else kept


def _shown(found: re.Match[str], *, keep_colour: bool) -> str:
    if found["colour"]:
        return found[0] if keep_colour else ""
    if len(found[0]) > 1:
        return ""
    return _spelled(found)


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"


def rank_colour(rank: int) -> str:
    """The colour in which a rank is named."""
    return _RANK_COLOURS[rank % len(_RANK_COLOURS)]


def narrate(text: str) -> None:
    """Tell the person something that is not data."""
    print(text, file=sys.stderr, flush=True)


def print_data(text: str) -> None:
    """Print what was asked for."""
    print(text, flush=True)


def print_json(value: Any, stream: TextIO | None = None) -> None:
    """Print one line of JSON."""
    print(json_line(value), end="", file=stream or sys.stdout, flush=True)


def json_line(value: Any) -> str:
    """One line of JSON, in which nothing steers a terminal."""
    text = msgspec.json.encode(value).decode()
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Align columns with two spaces between them."""
    lines = [tuple(header), *(tuple(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
