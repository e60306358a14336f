"""Open files, as many as the process may have; the one used longest ago is closed first."""

import os
from collections import OrderedDict
from pathlib import Path


class Handles:
    """Descriptors by path, opened when they are needed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: OrderedDict[Path, int] = OrderedDict()

    def get(self, path: Path) -> int:
        """A descriptor to read and write; the file is made if it is not there."""
        descriptor = self._open.pop(path, None)
        if descriptor is None:
            self._make_room()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._open[path] = descriptor
        return descriptor

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def _make_room(self) -> None:
        while len(self._open) >= self._most:
            os.close(self._open.popitem(last=False)[1])
