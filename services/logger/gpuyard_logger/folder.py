"""Segments on the local disk: files that are whole once they have their name."""

import os
from collections.abc import Iterable
from pathlib import Path

_SUFFIX = ".seg"


class Folder:
    """Files named by their segment. Any call may raise OSError; nothing is half-done then."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.root = path
        for torn in path.glob("*.tmp"):
            torn.unlink()

    def write(self, segment: str, pieces: Iterable[bytes]) -> None:
        """Make a segment. It is on disk, under its name, when this returns."""
        final = self._file(segment)
        temporary = final.with_suffix(".tmp")
        try:
            with temporary.open("wb", buffering=1024 * 1024) as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            temporary.rename(final)
            self._sync()
        except Exception:  # whatever stopped it, the disk's refusal or a piece that can't be had
            temporary.unlink(missing_ok=True)
            final.unlink(missing_ok=True)
            raise

    def read(self, segment: str, offset: int, size_bytes: int) -> bytes:
        """Bytes of a segment; fewer at its end.

        Raises:
            FileNotFoundError: it is not here (any more).

        """
        descriptor = os.open(self._file(segment), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(descriptor, size_bytes, offset)
        finally:
            os.close(descriptor)

    def remove(self, segment: str) -> None:
        self._file(segment).unlink(missing_ok=True)

    def names(self) -> frozenset[str]:
        return frozenset(path.stem for path in self.root.glob(f"*{_SUFFIX}"))

    def path(self, segment: str) -> Path:
        return self._file(segment)

    def size_bytes(self, segment: str) -> int:
        return self._file(segment).stat().st_size

    def _file(self, segment: str) -> Path:
        return self.root / f"{segment}{_SUFFIX}"

    def _sync(self) -> None:
        """The name, too, must survive a power failure."""
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
