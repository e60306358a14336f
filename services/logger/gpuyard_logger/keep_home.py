"""Segments of a partition that lie with a logger that does not own it: they come home to the owner.

Only who owns a partition merges, drops and moves its segments. So when partitions change hands their segments
follow, one after the other, and a logger that is to be taken away can be emptied by that alone.
"""

import asyncio
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.segment import Segment, SegmentReleased
from gpuyard.contracts.subjects import SEGMENT, SEGMENT_RELEASED, SEGMENTS_STREAM
from gpuyard.runtime.service import Context
from gpuyard_logger.catalogue import Deposed
from gpuyard_logger.core.frame import DamagedError
from gpuyard_logger.keep_adopt import rows_of
from gpuyard_logger.partition import Partition
from gpuyard_logger.peers import MOST_BYTES
from gpuyard_logger.shelf import Shelf

LOOK_S = 5.0


class Homecoming:
    """Fetches what others hold of the partitions that this logger owns."""

    def __init__(self, context: Context, shelf: Shelf, owned: Mapping[int, Partition], look_s: float) -> None:
        self._context = context
        self._shelf = shelf
        self._owned = owned
        self._look_s = min(LOOK_S, look_s)
        self._away: set[str] = set()
        """Holders of whom it was told that they do not answer."""

    async def run(self) -> None:
        while True:
            for partition in list(self._owned.values()):
                if partition.upkeep.settled.is_set() and not partition.hold:
                    await self._tend(partition)
            await self._context.clock.sleep(self._look_s)

    async def _tend(self, partition: Partition) -> None:
        """What can't be had now comes the next time."""
        silent: set[str] = set()
        for name, mark in self._shelf.index.marks(partition.number).items():
            if mark.holder in {"", self._shelf.logger} | silent:
                continue
            try:
                await self._fetch(partition, name)
            except Deposed:
                return  # the next owner goes on
            except (GpuyardError, OSError, DamagedError) as error:
                silent.add(mark.holder)
                self._tell(mark.holder, error)
            else:
                self._away.discard(mark.holder)

    def _tell(self, holder: str, error: Exception) -> None:
        if holder not in self._away:
            self._away.add(holder)
            self._context.log.warning("segments stay with another logger for now", why=str(error))

    async def _fetch(self, partition: Partition, name: str) -> None:
        record = await partition.catalogue.record(name)
        if record is None:
            return
        await asyncio.to_thread(self._copy, partition, record)
        async with partition.upkeep.lock:
            now = await partition.catalogue.record(name)
            if now is None or now.holder != record.holder:
                self._shelf.folder.remove(name)
                return
            await partition.catalogue.add(replace(now, holder=self._shelf.logger))
            partition.upkeep.look()
        released = encode(SegmentReleased(name, partition.number))
        await self._context.bus.publish(SEGMENT_RELEASED(logger=record.holder), released)

    def _copy(self, partition: Partition, record: Segment) -> None:
        """In a thread."""
        folder = self._shelf.folder
        folder.write(record.id, _pieces(partition, record))
        try:
            if folder.size_bytes(record.id) != record.size_bytes:
                raise DamagedError(f"segment {record.id} is shorter than it is recorded")
            rows_of(folder, record.id, record.size_bytes)
        except DamagedError:
            folder.remove(record.id)
            raise


class Release:
    """Removes files of segments that have gone home. One that is missed goes when the partition is owned."""

    def __init__(self, context: Context, shelf: Shelf, readers_s: float) -> None:
        self._context = context
        self._shelf = shelf
        self._readers_s = readers_s

    async def run(self) -> None:
        subject = SEGMENT_RELEASED(logger=self._shelf.logger)
        async with self._context.bus.subscribe(subject) as messages, asyncio.TaskGroup() as tasks:
            async for message in messages:
                tasks.create_task(self._remove(message.payload))

    async def _remove(self, payload: bytes) -> None:
        """Only what a record says to lie elsewhere; and when readers had their time."""
        await self._context.clock.sleep(self._readers_s)
        try:
            released = decode(payload, SegmentReleased)
            subject = SEGMENT(partition=released.partition, segment=released.segment)
            message = await self._context.bus.last(SEGMENTS_STREAM, subject)
            if message and decode(message.payload, Segment).holder != self._shelf.logger:
                self._shelf.folder.remove(released.segment)
        except (GpuyardError, OSError) as error:
            self._context.log.warning("file of a segment that went home stays for now", why=str(error))


def _pieces(partition: Partition, record: Segment) -> Iterator[bytes]:
    for offset in range(0, record.size_bytes, MOST_BYTES):
        yield partition.blobs.read(record.id, record.holder, offset, MOST_BYTES)
