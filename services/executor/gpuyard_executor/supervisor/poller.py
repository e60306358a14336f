"""The wait of a supervisor's loop: who is called when which descriptor has something to read."""

import select
from collections.abc import Callable


class Poller:
    """Only reading is waited for: what a supervisor writes goes to disk, or is short."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._on: dict[int, Callable[[], object]] = {}

    def hear(self, fd: int, callback: Callable[[], object]) -> None:
        self._on[fd] = callback
        self._poll.register(fd, select.POLLIN)

    def ignore(self, fd: int) -> None:
        if self._on.pop(fd, None):
            self._poll.unregister(fd)

    def wait(self, patience_ms: int | None) -> bool:
        """Wait for one round and make the calls; tell whether there was anything."""
        heard = self._poll.poll(patience_ms)
        for fd, _ in heard:
            if callback := self._on.get(fd):  # it may have been dropped in the same round
                callback()
        return bool(heard)
