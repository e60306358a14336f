"""Moves full segments from the disk to object storage, one after the other.

A segment is put and verified first; then its record changes hands under the owner's term; then the local file
goes, when readers had their time. Whatever breaks in between leaves a record that is true, and at most an
object too many, which is swept away.
"""

import asyncio
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from gpuyard.contracts.errors import GpuyardError
from gpuyard.runtime.service import Context
from gpuyard_logger.blobs import Objects
from gpuyard_logger.catalogue import Deposed
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.core.frame import DamagedError
from gpuyard_logger.core.tiering import to_move
from gpuyard_logger.partition import Partition
from gpuyard_logger.shelf import Shelf

LOOK_S = 5.0
SWEEP_S = 3600.0
_SPARSE_SHARE = 0.5


class Mover:
    """One per logger.

    Args:
        context: The world.
        config: When what is moved.
        shelf: The disk.
        owned: The partitions that this logger owns now.
        is_urgent: Whether the disk is short of room.

    """

    def __init__(
        self,
        context: Context,
        config: LoggerConfig,
        shelf: Shelf,
        owned: Mapping[int, Partition],
        is_urgent: Callable[[], bool],
    ) -> None:
        self._context = context
        self._config = config
        self._shelf = shelf
        self._owned = owned
        self._is_urgent = is_urgent
        self._swept_s = context.clock.monotonic()
        self._moved = context.metrics.counter(
            "gpuyard_logger_moved_segments_total", "Segments that moved to object storage."
        )
        self._errors = context.metrics.counter(
            "gpuyard_logger_object_errors_total", "Times that object storage did not do as it was asked."
        )
        self._why = ""

    async def run(self) -> None:
        self._context.health.note("objects", self._config.objects.url)
        while True:
            try:
                await self._round()
            except (GpuyardError, OSError, DamagedError) as error:
                self._errors.inc()
                self._tell(str(error))
            else:
                self._tell("")
            await self._context.clock.sleep(min(LOOK_S, self._config.keep_interval_s))

    async def _round(self) -> None:
        now_s = self._context.clock.monotonic()
        is_due = now_s - self._swept_s >= SWEEP_S
        if is_due:
            self._swept_s = now_s
        for partition in list(self._owned.values()):
            if partition.objects is None or not partition.upkeep.settled.is_set():
                continue
            partition.upkeep.is_unswept |= is_due
            await self._tend(partition, partition.objects)

    async def _tend(self, partition: Partition, objects: Objects) -> None:
        try:
            if partition.upkeep.is_unswept:
                await partition.upkeep.sweep(objects)
            await self._fetch_sparse(partition)
            for name in self._due(partition):
                await self._move(partition, objects, name)
        except Deposed:
            pass  # its next owner goes on

    def _due(self, partition: Partition) -> list[str]:
        return to_move(
            self._shelf.index.sizes(partition.number, self._shelf.logger),
            self._context.clock.now(),
            after_s=self._config.objects.after_s,
            min_bytes=self._config.objects.min_bytes,
            urgent=self._is_urgent(),
        )

    async def _move(self, partition: Partition, objects: Objects, name: str) -> None:
        await asyncio.to_thread(objects.put, name, self._shelf.folder.path(name))
        async with partition.upkeep.lock:
            record = await partition.catalogue.record(name)
            if record is None or record.holder != self._shelf.logger:
                partition.upkeep.is_unswept = True  # it was merged or dropped meanwhile
                return
            await partition.catalogue.add(replace(record, holder=""))
            partition.upkeep.retire(name)
        self._moved.inc()

    async def _fetch_sparse(self, partition: Partition) -> None:
        """What was mostly dropped of comes back, small; the rest of the object is swept away."""
        while name := self._shelf.keep_index.sparse(partition.number, "", _SPARSE_SHARE):
            async with partition.upkeep.lock:
                await partition.upkeep.rewrite(name)
            partition.upkeep.is_unswept = True

    def _tell(self, why: str) -> None:
        if why and not self._why:
            self._context.log.error("object storage fails; segments stay on the disk", why=why)
        elif self._why and not why:
            self._context.log.info("object storage works again")
        self._why = why
        self._context.health.note("objects", why or self._config.objects.url)
