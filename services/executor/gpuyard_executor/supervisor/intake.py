"""From the pipes of a rank to its spool; a program that finds no room waits in its pipe."""

import os
from collections.abc import Callable
from functools import partial

from gpuyard_executor.supervisor.poller import Poller
from gpuyard_executor.supervisor.spool import Spool

_READ_BYTES = 65536


class Intake:
    """The open pipes. `grown` is called for each frame that was taken in."""

    def __init__(self, poller: Poller, spool: Spool, grown: Callable[[], None]) -> None:
        self._poller = poller
        self._spool = spool
        self._grown = grown
        self._pipes: dict[int, int] = {}
        """Descriptor of each open pipe, and its stream."""
        self.is_open = True
        """Whether the pipes are heard: there is room."""

    def add(self, fd: int, stream: int) -> None:
        os.set_blocking(fd, False)
        self._pipes[fd] = stream
        self._hear(fd)

    @property
    def has_pipes(self) -> bool:
        """Whether anybody could still print."""
        return bool(self._pipes)

    def drain(self) -> bool:
        """Take in what the pipes still hold; tell whether all of it is on disk.

        A pipe that a stranger keeps open is left when it is empty.
        """
        for fd in list(self._pipes):
            while self._read(fd):
                pass
        return self._spool.flush()

    def adjust(self) -> None:
        """A full pipe makes the program wait: just what shall happen while there is no room."""
        has_room = self._spool.flush() and self._spool.has_room()
        if has_room == self.is_open:
            return
        self.is_open = has_room
        for fd in self._pipes:
            if has_room:
                self._hear(fd)
            else:
                self._poller.ignore(fd)

    def _hear(self, fd: int) -> None:
        self._poller.hear(fd, partial(self._read, fd))

    def _read(self, fd: int) -> bool:
        """Move what a pipe holds to the spool; tell whether there was something."""
        if not self._spool.flush():
            return False
        try:
            data = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close(fd)
            return False
        self._spool.append(self._pipes[fd], data)
        self._grown()
        return True

    def _close(self, fd: int) -> None:
        self._poller.ignore(fd)
        del self._pipes[fd]
        os.close(fd)
