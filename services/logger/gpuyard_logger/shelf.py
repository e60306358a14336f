"""What a logger has on its disk: its name, its segments and its index. Belongs to one process at a time."""

import asyncio
import fcntl
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import ParamSpec, TypeVar
from uuid import uuid4

from gpuyard.contracts.errors import Conflict
from gpuyard_logger.database import remove_database
from gpuyard_logger.folder import Folder
from gpuyard_logger.index import Index
from gpuyard_logger.keep_index import KeepIndex

P = ParamSpec("P")
T = TypeVar("T")


class Shelf:
    """Opened by the logger that it belongs to.

    `logger` is the name that records call the holder by. It lies with the files, so that they keep their
    holder wherever the process runs.

    Raises:
        Conflict: another process uses the folder.
        OSError: the folder can't be used.

    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(path / "lock")
        self._index_path = path / "index.sqlite"
        self.logger = _name(path / "logger")
        self.path = path
        self.folder = Folder(path / "segments")
        self.damage = Event()
        """Set when the index turns out to be damaged; see `renew_index`."""
        self._open_index()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="write")

    async def write(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something that waits for the disk, one after the other."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writer, lambda: work(*args, **kwargs))

    def renew_index(self) -> None:
        """Begin an empty index in place of a damaged one. Nothing may be using it."""
        self._close_index()
        remove_database(self._index_path)
        self._open_index()

    def reading_keep_index(self) -> KeepIndex:
        """The same for a thread of its own."""
        return KeepIndex(self._index_path, self.damage)

    def reading_index(self) -> Index:
        """An index for a thread of its own."""
        return Index(self._index_path, self.damage)

    def close(self) -> None:
        self._writer.shutdown()
        self._close_index()
        os.close(self._lock)

    def _open_index(self) -> None:
        self.index = Index(self._index_path, self.damage)
        try:
            self.index.prepare()
        except OSError:  # whatever it is, a new one is as good
            self.index.close()
            remove_database(self._index_path)
            self.index = Index(self._index_path, self.damage)
            self.index.prepare()
        self.damage.clear()
        self.keep_index = KeepIndex(self._index_path, self.damage)
        self.keep_index.prepare()

    def _close_index(self) -> None:
        self.keep_index.close()
        self.index.close()


def _name(path: Path) -> str:
    """The logger's name; a new one at the first start."""
    if not path.exists():
        temporary = path.with_suffix(".tmp")
        temporary.write_text(f"logger-{uuid4().hex[:12]}\n")
        temporary.rename(path)
    return path.read_text().strip()


def _lock(path: Path) -> int:
    """Keep every other process out until this one ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise Conflict(
            f"another logger uses {path.parent}", "Stop it, or give this one a `dir` of its own."
        ) from error
    return descriptor
