"""Segments wherever they lie, for threads that read: on this disk, with another logger, in object storage."""

import asyncio
from pathlib import Path
from typing import Protocol

from gpuyard.bus.port import Bus
from gpuyard_logger import peers
from gpuyard_logger.shelf import Shelf


class Place(Protocol):
    """Where whole segments lie. Any call may raise OSError."""

    def read(self, segment: str, offset: int, size_bytes: int) -> bytes:
        """Bytes of a segment, from some before its end on; fewer at its end.

        Raises:
            FileNotFoundError: it is not there (any more).

        """
        ...

    def size_bytes(self, segment: str) -> int:
        """How long it is; FileNotFoundError if it is not there."""
        ...

    def names(self) -> frozenset[str]: ...
    def remove(self, segment: str) -> None:
        """Remove it; one that is not there is removed."""
        ...


class Objects(Place, Protocol):
    """Object storage of one partition."""

    def put(self, segment: str, path: Path) -> None:
        """Store a file. When this returns it is there, and can be read."""
        ...


class ObjectPlaces(Protocol):
    """Object storage of all partitions."""

    def of(self, partition: int) -> Objects: ...


class LoggerBlobs:
    """Reads by holder. Made on the event loop, used by other threads."""

    def __init__(self, bus: Bus, shelf: Shelf, objects: Objects | None) -> None:
        self._bus = bus
        self._shelf = shelf
        self._objects = objects
        self._loop = asyncio.get_running_loop()

    def read(self, segment: str, holder: str, offset: int, size_bytes: int) -> bytes:
        if holder == self._shelf.logger:
            return self._shelf.folder.read(segment, offset, size_bytes)
        if not holder:
            return self._object(segment, offset, size_bytes)
        fetching = peers.fetch(self._bus, holder, segment, offset, size_bytes)
        return asyncio.run_coroutine_threadsafe(fetching, self._loop).result()

    def _object(self, segment: str, offset: int, size_bytes: int) -> bytes:
        if self._objects is None:
            raise OSError("these lines are in object storage, and `url` in [logger.objects] names none")
        return self._objects.read(segment, offset, size_bytes)
