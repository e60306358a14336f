"""Segments wherever they lie, for threads that read."""

import asyncio

from gpuyard.bus.port import Bus
from gpuyard_logger import peers
from gpuyard_logger.shelf import Shelf


class LoggerBlobs:
    """On this disk, or with another logger. Made on the event loop, used by other threads."""

    def __init__(self, bus: Bus, shelf: Shelf) -> None:
        self._bus = bus
        self._shelf = shelf
        self._loop = asyncio.get_running_loop()

    def read(self, segment: str, holder: str, offset: int, size_bytes: int) -> bytes:
        if holder == self._shelf.logger:
            return self._shelf.folder.read(segment, offset, size_bytes)
        fetching = peers.fetch(self._bus, holder, segment, offset, size_bytes)
        return asyncio.run_coroutine_threadsafe(fetching, self._loop).result()
