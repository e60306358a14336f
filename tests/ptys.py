"""A terminal for tests: a program on a pseudo-terminal, its keys, and what it has drawn."""

import codecs
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

GENEROUS_S = 60.0
_PARTS = re.compile(r"\x1b\[(?P<numbers>[0-?]*)(?P<final>[@-~])|(?P<text>[^\x1b])", re.DOTALL)


class Display:
    """Understands as much of what full-screen programs write as ours use."""

    def __init__(self) -> None:
        self._lines: dict[int, str] = {}
        self._row, self._column = 1, 1
        self._rest = ""
        self._shown: dict[int, str] | None = None
        """The last picture, while the next one is being drawn."""

    @property
    def lines(self) -> list[str]:
        """What a person sees."""
        shown = self._lines if self._shown is None else self._shown
        return [shown.get(row, "").rstrip() for row in range(1, max(shown, default=0) + 1)]

    def take(self, text: str) -> None:
        text, end = self._rest + text, 0
        for part in _PARTS.finditer(text):
            end = part.end()
            if part["text"]:
                self._put(part["text"])
            elif part["final"] == "H":
                self._row, self._column = (int(number) for number in part["numbers"].split(";"))
            elif part["final"] == "K":
                self._lines[self._row] = self._lines.get(self._row, "")[: self._column - 1]
            elif part["final"] == "J":
                self._lines.clear()
            elif part["numbers"] == "?2026":
                self._shown = dict(self._lines) if part["final"] == "h" else None
        self._rest = text[end:]

    def _put(self, character: str) -> None:
        if character == "\n":
            self._row += 1
        elif character == "\r":
            self._column = 1
        else:
            line = self._lines.get(self._row, "").ljust(self._column)
            self._lines[self._row] = line[: self._column - 1] + character + line[self._column :]
            self._column += 1


class Terminal:
    """A program on a pseudo-terminal."""

    def __init__(
        self, command: Sequence[str], environment: dict[str, str], folder: Path, *, width: int, height: int
    ) -> None:
        self.written = ""
        """Everything it wrote, as it came."""
        self._display = Display()
        self._text = codecs.getincrementaldecoder("utf-8")()
        self._end, program = os.openpty()
        self._set_size(width, height)
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=program,
            stdout=program,
            stderr=program,
            preexec_fn=_heed_signals,  # noqa: PLW1509 - no other way to give it the terminal
            start_new_session=True,
        )
        os.close(program)

    @property
    def modes(self) -> list[Any]:
        """How the terminal is set, as a shell would find it afterwards."""
        return termios.tcgetattr(self._end)

    @property
    def lines(self) -> list[str]:
        """What a person sees."""
        return self._display.lines

    def press(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def resize(self, width: int, height: int) -> None:
        self._set_size(width, height)
        self.signal(signal.SIGWINCH)

    def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        """Wait until the screen is as wanted, generously."""
        deadline_s = time.monotonic() + GENEROUS_S
        while not condition(self.lines):
            assert time.monotonic() < deadline_s, "it never looked so:\n" + "\n".join(self.lines)
            assert self._read(), "it ended:\n" + self.written
        return self.lines

    def ended(self) -> int:
        """Wait for the end of the program; its exit code, or minus the signal that ended it."""
        deadline_s = time.monotonic() + GENEROUS_S
        while self._read():
            assert time.monotonic() < deadline_s, "it never ended:\n" + "\n".join(self.lines)
        return self._process.wait(GENEROUS_S)

    def stopped(self) -> None:
        """Wait until it stands still, as after Ctrl-Z."""
        stat = Path(f"/proc/{self._process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            assert self._read(), "it ended:\n" + self.written
        while select.select([self._end], [], [], 0)[0]:
            self._read()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._end)

    def _read(self) -> bool:
        """Take what comes within a moment; False after the end."""
        if not select.select([self._end], [], [], 0.1)[0]:
            return self._process.poll() is None
        try:
            data = os.read(self._end, 65536)
        except OSError:  # how Linux says that the program has closed its end
            return False
        text = self._text.decode(data)
        self.written += text
        self._display.take(text)
        return True

    def _set_size(self, width: int, height: int) -> None:
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


def _heed_signals() -> None:
    """The terminal is the program's own, so that Ctrl-C reaches it, even if the suite ignores Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
