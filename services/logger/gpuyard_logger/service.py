"""The logger: owns a share of the partitions, and tells other loggers what lies on its disk."""

import asyncio
import random

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
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard_logger.answers import Answers
from gpuyard_logger.blobs import ObjectPlaces
from gpuyard_logger.catalogue import Deposed
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.core.shares import share_of
from gpuyard_logger.database import DamagedIndexError
from gpuyard_logger.desk import Desk
from gpuyard_logger.keep_desk import KeepDesk
from gpuyard_logger.keep_home import Homecoming, Release
from gpuyard_logger.measure import Measures
from gpuyard_logger.numbers import NumberReader
from gpuyard_logger.partition import Partition
from gpuyard_logger.patterns import PatternWatch
from gpuyard_logger.peers import Lender
from gpuyard_logger.retention import Keeper
from gpuyard_logger.roster import BEAT_S, Roster
from gpuyard_logger.series import SeriesAnswers
from gpuyard_logger.shelf import Shelf
from gpuyard_logger.tiering import Mover

_LOOK_S = 0.1


class LoggerService:
    """One logger with its shelf."""

    def __init__(
        self, config: LoggerConfig, context: Context, shelf: Shelf, objects: ObjectPlaces | None = None
    ) -> None:
        self._config = config
        self._context = context
        self._shelf = shelf
        self._objects = objects
        self._owned: dict[int, Partition] = {}
        self._measures = Measures(context.metrics, self._owned, context.clock.monotonic)
        self._numbers = NumberReader(context)
        self._watch = PatternWatch(context, config.log_rules)
        self._answers: dict[int, Answers] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._leaving: set[int] = set()
        """Partitions that are being given up."""
        self._roster = Roster(context, shelf.logger, lambda: tuple(sorted(self._owned)))
        self._keeper = Keeper(context, config, shelf, self._owned)
        self._homecoming = Homecoming(context, shelf, self._owned, config.keep_interval_s)
        self._mover = Mover(context, config, shelf, self._owned, lambda: self._keeper.is_short)
        context.health.note("logger", shelf.logger)

    async def run(self) -> None:
        try:
            await self._ensure()
            while True:
                try:
                    await self._serve()
                except* DamagedIndexError as errors:
                    self._context.log.error("index is made anew", why=str(_first(errors)))
                self._context.health.not_ready("the index is made anew")
                self._shelf.renew_index()
                await self._context.clock.sleep(BEAT_S)
        finally:
            self._shelf.close()

    async def _serve(self) -> None:
        """Serve until the index is damaged."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._roster.run())
            tasks.create_task(Lender(self._context, self._shelf).run())
            tasks.create_task(Desk(self._context, self._answers).run())
            tasks.create_task(self._keeper.run())
            tasks.create_task(self._homecoming.run())
            tasks.create_task(Release(self._context, self._shelf, self._config.readers_s).run())
            if self._objects is not None:
                tasks.create_task(self._mover.run())
            tasks.create_task(self._keep_share(tasks))

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
            if self._shelf.damage.is_set():
                raise DamagedIndexError("a question met damage")
            share = share_of(self._shelf.logger, self._roster.alive(), PARTITIONS)
            for number in self._tasks.keys() - share - self._leaving:
                self._leaving.add(number)
                self._tasks[number].cancel()
            for number in share - self._tasks.keys():
                self._tasks[number] = tasks.create_task(self._keep_owning(number))
            self._report(share)
            await self._context.clock.sleep(_LOOK_S)

    async def _keep_owning(self, number: int) -> None:
        """Own the partition again and again, until cancelled."""
        tries = 0
        try:
            while True:
                tries += 1
                try:
                    await self._own(number)
                except* DamagedIndexError:
                    raise
                except* Deposed as errors:
                    self._context.log.warning("deposed", partition=number, why=str(_first(errors)))
                except* (GpuyardError, OSError) as errors:
                    self._context.log.warning(
                        "partition not served", partition=number, why=str(_first(errors))
                    )
                await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311
        finally:
            self._tasks.pop(number)
            self._leaving.discard(number)

    async def _own(self, number: int) -> None:
        """From acquiring a partition to losing it."""
        lease = Lease(
            self._context.bus,
            SEGMENTS_STREAM,
            LOG_LEADER(partition=number),
            LOG_TERM(partition=number),
            owner=self._shelf.logger,
            clock=self._context.clock,
            ttl_s=self._config.lease_s,
            alone=True,
        )
        reign = await lease.acquire()
        try:
            await self._reign(number, reign)
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
            watch=self._watch,
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
            tasks.create_task(KeepDesk(self._context, partition).run())
            tasks.create_task(series.run())

    def _report(self, share: frozenset[int]) -> None:
        """Ready means: every partition of its share is read and can be sealed."""
        health = self._context.health
        trouble = next((p.trouble for p in self._owned.values() if p.trouble), "")
        if trouble:
            health.not_ready(trouble)
        elif missing := share - self._owned.keys():
            health.not_ready(f"waits for partition {min(missing)}")
        else:
            health.ready()
        health.note("partitions", sorted(self._owned))


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """One that says what happened."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _until_lost(reign: Reign) -> None:
    await reign.lost.wait()
    raise Deposed("the lease is lost")
