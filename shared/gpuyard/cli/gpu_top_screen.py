"""A terminal taken as a whole: only lines that changed are written, and at the end it is as before."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.text import Text

from gpuyard.cli import terminal
from gpuyard.cli.gpu_top_frame import Line, Size
from gpuyard.cli.gpu_top_words import ASCII, BLOCKS, Glyphs

# The other screen, no cursor, no wrapping of long lines; and back, in the opposite order.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
# Terminals that know these show all changes in between at once.
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_PLAIN = str.maketrans({"°": " ", "…": "~"})


class Screen:
    """Draws lines of spans on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._console = Console(
            file=stream, force_terminal=True, no_color=not terminal.has_colour(stream), highlight=False
        )
        self._drawn: list[Line] = []

    @property
    def glyphs(self) -> Glyphs:
        """What this terminal can show."""
        return BLOCKS if self._has_unicode else ASCII

    @property
    def _has_unicode(self) -> bool:
        return self._stream.encoding.lower().startswith("utf")

    @property
    def size(self) -> Size:
        return Size(*os.get_terminal_size(self._stream.fileno()))

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the terminal for oneself."""
        self._write(_ENTER)
        self._drawn = []
        try:
            yield
        finally:
            self._write(_LEAVE)

    def clear(self) -> None:
        """Draw everything anew the next time."""
        self._drawn = []
        self._write("\x1b[2J")

    def draw(self, lines: Sequence[Line]) -> None:
        """Show these lines; whatever was shown below them is wiped."""
        before = self._drawn + [()] * (len(lines) - len(self._drawn))
        now = [*lines, *([()] * (len(before) - len(lines)))]
        changed = [
            f"\x1b[{number + 1};1H{self._rendered(line)}\x1b[0m\x1b[K"
            for number, (old, line) in enumerate(zip(before, now, strict=True))
            if old != line
        ]
        self._drawn = list(lines)
        if changed:
            self._write(f"{_BEGIN}{''.join(changed)}{_END}")

    def _rendered(self, line: Line) -> str:
        text = Text.assemble(*line)
        with self._console.capture() as captured:
            self._console.print(text, end="", soft_wrap=True)
        return captured.get()

    def _write(self, text: str) -> None:
        if not self._has_unicode:
            text = text.translate(_PLAIN).encode("ascii", errors="replace").decode()
        self._stream.write(text)
        self._stream.flush()
