"""A terminal for tests: a program on a pseudo-terminal, its keys, and what it has drawn."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

GENEROUS_S = 60.0
_PARTS = re.compile(r"\x1b\[(?P<numbers>[0-?]*)(?P<final>[@-~])|(?P<text>[^\x1b])", re.DOTALL)


class Terminal:
    """Starts a program and understands as much of what it writes as full-screen programs of ours use."""

    def __init__(
        self, command: Sequence[str], environment: dict[str, str], folder: Path, *, width: int, height: int
    ) -> None:
        self.written = ""
        """Everything it wrote, as it came."""
        self._lines: dict[int, str] = {}
        self._row, self._column = 1, 1
        self._text = codecs.getincrementaldecoder("utf-8")()
        self._rest = ""
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(command[0], list(command), environment)
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self._end, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    @property
    def modes(self) -> list[Any]:
        """How the terminal is set, as a shell would find it afterwards."""
        return termios.tcgetattr(self._end)

    @property
    def lines(self) -> list[str]:
        """What a person sees."""
        last = max(self._lines, default=0)
        return [self._lines.get(row, "").rstrip() for row in range(1, last + 1)]

    def press(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def until(self, condition: Callable[[list[str]], bool]) -> list[str]:
        """Wait until the screen is as wanted, generously."""
        deadline_s = time.monotonic() + GENEROUS_S
        while not condition(self.lines):
            assert time.monotonic() < deadline_s, "it never looked so:\n" + "\n".join(self.lines)
            assert self._read(), "it ended:\n" + self.written
        return self.lines

    def ended(self) -> int:
        """Wait for the end of the program; its exit code, or minus the signal that ended it."""
        while self._read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)
        os.close(self._end)

    def _read(self) -> bool:
        """Take what comes within a moment; False after the end."""
        if not select.select([self._end], [], [], 0.1)[0]:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        try:
            data = os.read(self._end, 65536)
        except OSError:  # how Linux says that the program has closed its end
            return False
        text = self._text.decode(data)
        self.written += text
        self._draw(self._rest + text)
        return bool(data)

    def _draw(self, text: str) -> None:
        end = 0
        for part in _PARTS.finditer(text):
            end = part.end()
            if part["text"]:
                self._put(part["text"])
            elif part["final"] == "H":
                self._row, self._column = (int(number) for number in (part["numbers"] or "1;1").split(";"))
            elif part["final"] == "K":
                self._lines[self._row] = self._lines.get(self._row, "")[: self._column - 1]
            elif part["final"] == "J":
                self._lines.clear()
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
