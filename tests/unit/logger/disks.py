"""Disks that fail when told to."""

import errno
from collections.abc import Iterable

import pytest

from gpuyard_logger.folder import Folder


class FullDisk:
    """No segment can be written while it is full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refused = 0
        self._is_full = False
        write = Folder.write

        def refusing(folder: Folder, segment: str, pieces: Iterable[bytes]) -> None:
            if self._is_full:
                self.refused += 1
                raise OSError(errno.ENOSPC, "No space left on device")
            write(folder, segment, pieces)

        monkeypatch.setattr(Folder, "write", refusing)

    def fill(self) -> None:
        self._is_full = True

    def empty(self) -> None:
        self._is_full = False
