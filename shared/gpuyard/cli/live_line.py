"""A line on stderr that the next one replaces, where a terminal reads it; else a plain line each."""

import sys
from typing import TextIO


class LiveLine:
    """It must be wiped before anything else is printed, and is drawn again by the next `show`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self._is_live = self.stream.isatty()
        self._is_drawn = False

    def show(self, text: str, *, keep: bool = False) -> None:
        """Replace the line by another; one that is to be kept stays on the screen."""
        self.wipe()
        self._is_drawn = self._is_live and not keep
        self._write(text if self._is_drawn else f"{text}\n")

    def note(self, text: str) -> None:
        """Print something else above it."""
        self.show(text, keep=True)

    def wipe(self) -> None:
        """Make room for other output."""
        if self._is_drawn:
            self._write("\r\x1b[2K")
            self._is_drawn = False

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()
