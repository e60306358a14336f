"""The logger: owns a share of the partitions, and tells other loggers what lies on its disk."""

import asyncio
from contextlib import suppress

from gpuyard.bus.lease import Lease, Reign
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.log import PARTITIONS
from gpuyard.contracts.subjects import (
    LOG_LEADER,
    LOG_TERM,
    LOGS_STREAM,
    REJECTS_STREAM,
    SEGMENTS_STREAM,
    STATE_STREAM,
)
from gpuyard.runtime.service import Context
from gpuyard_logger.answers import Answers
from gpuyard_logger.blobs import ObjectPlaces
from gpuyard_logger.catalogue import Deposed
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.core.shares import share_of
from gpuyard_logger.desk import Desk
from gpuyard_logger.keep_desk import KeepDesk
from gpuyard_logger.measure import Measures
from gpuyard_logger.numbers import NumberReader
from gpuyard_logger.partition import Partition
from gpuyard_logger.peers import Lender
from gpuyard_logger.retention import Keeper
from gpuyard_logger.roster import BEAT_S, Roster
from gpuyard_logger.series import SeriesAnswers
from gpuyard_logger.shelf import Shelf
from gpuyard_logger.tiering import Mover


class LoggerService:
    """One logger with its shelf."""

    def __init__(
        self, config: LoggerConfig, context: Context, shelf: Shelf, objects: ObjectPlaces | None = None
    ) -> None:
        self._config = config
        self._context = context
        self._shelf = shelf
        self._objects = objects
        self._measures = Measures(context.metrics)
        self._numbers = NumberReader(context)
        self._owned: dict[int, Partition] = {}
        self._answers: dict[int, Answers] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._roster = Roster(context, shelf.logger, lambda: tuple(sorted(self._owned)))
        self._keeper = Keeper(context, config, shelf, self._owned)
        self._mover = Mover(context, config, shelf, self._owned, lambda: self._keeper.is_short)
        context.health.note("logger", shelf.logger)

    async def run(self) -> None:
        try:
            await self._ensure()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._roster.run())
                tasks.create_task(Lender(self._context, self._shelf).run())
                tasks.create_task(Desk(self._context, self._answers).run())
                tasks.create_task(self._keeper.run())
                if self._objects is not None:
                    tasks.create_task(self._mover.run())
                tasks.create_task(self._keep_share(tasks))
        finally:
            self._shelf.close()

    async def _ensure(self) -> None:
        """Wait for the streams."""
        while True:
            try:
                await self._context.bus.ensure((STATE_STREAM, LOGS_STREAM, REJECTS_STREAM, SEGMENTS_STREAM))
            except GpuyardError as error:
                self._context.health.not_ready(f"the streams can't be had: {error}")
                await self._context.clock.sleep(BEAT_S)
            else:
                return

    # Its share

    async def _keep_share(self, tasks: asyncio.TaskGroup) -> None:
        """Compete for the partitions of this logger, and let go of those that are another's now."""
        while True:
            share = share_of(self._shelf.logger, self._roster.alive(), PARTITIONS)
            for number in self._tasks.keys() - share:
                self._tasks.pop(number).cancel()
            for number in share - self._tasks.keys():
                self._tasks[number] = tasks.create_task(self._keep_owning(number))
            self._report(share)
            await self._context.clock.sleep(BEAT_S)

    async def _keep_owning(self, number: int) -> None:
        while True:
            with suppress(GpuyardError):
                await self._own(number)
            self._context.log.info("does not own the partition any more", partition=number)

    async def _own(self, number: int) -> None:
        """From acquiring a partition to losing it."""
        context = self._context
        lease = Lease(
            context.bus,
            SEGMENTS_STREAM,
            LOG_LEADER(partition=number),
            LOG_TERM(partition=number),
            owner=self._shelf.logger,
            clock=context.clock,
            ttl_s=self._config.lease_s,
            alone=True,
        )
        reign = await lease.acquire()
        try:
            await self._reign(number, reign)
        except* Deposed as errors:
            context.log.warning("deposed", partition=number, why=str(errors.exceptions[0]))
        finally:
            self._owned.pop(number, None)
            self._answers.pop(number, None)
            await reign.resign()

    async def _reign(self, number: int, reign: Reign) -> None:
        partition = Partition(
            number,
            self._context,
            self._config,
            self._shelf,
            reign=reign,
            measures=self._measures,
            numbers=self._numbers,
            objects=None if self._objects is None else self._objects.of(number),
        )
        self._owned[number] = partition
        blobs = partition.blobs
        answers = Answers(self._context, self._shelf, blobs, partition)
        series = SeriesAnswers(self._context, self._shelf, blobs, number, partition.gather)
        self._answers[number] = answers
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_until_lost(reign))
            tasks.create_task(partition.run())
            tasks.create_task(answers.run())
            tasks.create_task(KeepDesk(self._context, number, partition.keep).run())
            tasks.create_task(series.run())

    def _report(self, share: frozenset[int]) -> None:
        """Ready means: every partition of its share is read and can be sealed."""
        health = self._context.health
        trouble = next((p.trouble or p.hold for p in self._owned.values() if p.trouble or p.hold), "")
        if trouble:
            health.not_ready(trouble)
        elif missing := share - self._owned.keys():
            health.not_ready(f"waits for partition {min(missing)}")
        else:
            health.ready()
        health.note("partitions", sorted(self._owned))


async def _until_lost(reign: Reign) -> None:
    await reign.lost.wait()
    raise Deposed("the lease is lost")
