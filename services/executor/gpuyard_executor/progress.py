"""How far a rank's output is on the bus: written before each batch, which so can be sent again as it was."""

import os
from pathlib import Path

import msgspec
from msgspec import Struct

from gpuyard_executor.core.batching import Position

_RECORD_BYTES = 320


class Progress(Struct, frozen=True):
    """The positions before and after the batch that was under way last."""

    before: Position = Position()
    after: Position = Position()


class ProgressFile:
    """One small record, rewritten in place by a single write: a kill leaves the old one or the new one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Progress:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=Progress)
        except (FileNotFoundError, msgspec.MsgspecError):
            return Progress()

    def write(self, progress: Progress) -> None:
        record = msgspec.json.encode(progress).ljust(_RECORD_BYTES)
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, record)
        finally:
            os.close(fd)

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
