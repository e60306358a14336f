"""Single keys from a terminal, as they are pressed."""

import asyncio
import codecs
import os
import re
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Behind a slow line the bytes of one key come in several parts, but hardly this late.
ESCAPE_S = 0.1

_KEYS = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[5~": "page_up",
    "\x1b[6~": "page_down",
    "\x1b[H": "home",
    "\x1bOH": "home",
    "\x1b[1~": "home",
    "\x1b[F": "end",
    "\x1bOF": "end",
    "\x1b[4~": "end",
    "\x1b": "escape",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x15": "clear",
}
_PARTS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO.|\x1b(?![\[O])|[^\x1b]")
_UNFINISHED = re.compile(r"\x1b(\[[0-?]*[ -/]*|O)?$")


class KeyDecoder:
    """Cuts what a terminal sends into keys; keeps the beginning of one until its rest comes."""

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")("ignore")
        self._kept = ""

    @property
    def waits(self) -> bool:
        """Whether more may belong to what has come: a lone escape looks like the beginning of other keys."""
        return bool(self._kept)

    def feed(self, data: bytes) -> list[str]:
        """The keys that are complete now: printable characters, or names. Unknown ones are left out."""
        text = self._kept + self._text.decode(data)
        unfinished = _UNFINISHED.search(text)
        self._kept = unfinished.group() if unfinished else ""
        return _named(text.removesuffix(self._kept))

    def flush(self) -> list[str]:
        """What has come, now that nothing more does."""
        kept, self._kept = self._kept, ""
        return _named(kept[:1])


def _named(text: str) -> list[str]:
    return [_KEYS.get(part, part) for part in _PARTS.findall(text) if part in _KEYS or part.isprintable()]


@contextmanager
def single_keys(terminal: int) -> Iterator[None]:
    """Let the terminal give each key at once and not show it; Ctrl-C and Ctrl-Z stay what they are."""
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcflush(terminal, termios.TCIFLUSH)  # keys meant for us must not reach the shell
        termios.tcsetattr(terminal, termios.TCSANOW, before)


@contextmanager
def pressed(terminal: int, press: Callable[[str], None]) -> Iterator[None]:
    """Call `press` with each key, on the running loop. A terminal that went away presses `q`."""
    keyboard = _Keyboard(terminal, press)
    loop = asyncio.get_running_loop()
    loop.add_reader(terminal, keyboard.arrive)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        keyboard.rest()


class _Keyboard:
    def __init__(self, terminal: int, press: Callable[[str], None]) -> None:
        self._terminal = terminal
        self._press = press
        self._decoder = KeyDecoder()
        self._timer: asyncio.TimerHandle | None = None

    def arrive(self) -> None:
        self.rest()
        data = _read(self._terminal)
        if not data:
            asyncio.get_running_loop().remove_reader(self._terminal)
        self._tell(self._decoder.feed(data) if data else ["q"])
        if self._decoder.waits:
            self._timer = asyncio.get_running_loop().call_later(ESCAPE_S, self._flush)

    def rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _flush(self) -> None:
        self._tell(self._decoder.flush())

    def _tell(self, keys: list[str]) -> None:
        for key in keys:
            self._press(key)


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
