"""The logger: stores the LOGS stream, answers questions about it, trims it behind the store.

It reads the stream in order from its beginning, not as a work queue: a queue delivers again out of order, and
a batch that overtakes another looks like lost lines. Where it stands need not be written down either: after a
restart it reads again what is still in the stream, and the store drops what it has. So trimming is the
acknowledgement, and only stored messages are trimmed.
"""

import asyncio
import random

from gpuyard.bus.port import Message, Reader
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.subjects import LOGS_STREAM, REJECTS_STREAM
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard_logger.answers import Answers
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.core.follow_buffer import FollowBuffer
from gpuyard_logger.intake import Intake, Received, parse_batch
from gpuyard_logger.persist import NOTHING, Persist
from gpuyard_logger.store import Store
from gpuyard_logger.store_thread import StoreThread


class LoggerService:
    """One logger with its store."""

    def __init__(self, config: LoggerConfig, context: Context, store: Store) -> None:
        self._config = config
        self._context = context
        self._store = StoreThread(store)
        self._persist = Persist(context, self._store)
        self._answers = Answers(context, self._store, lambda: self._persist.through.seq)
        self._buffer = FollowBuffer(config.keep_bytes, config.keep_s)
        self._newest_seq = 0
        context.metrics.gauge(
            "gpuyard_logger_lag_messages", "Messages of the stream received, but not yet stored."
        ).set_function(lambda: max(0, self._newest_seq - self._persist.through.seq))

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_storing())
                tasks.create_task(self._answers.run())
                tasks.create_task(self._keep_trimming())
        finally:
            await self._store.close()

    async def _keep_storing(self) -> None:
        """Read the stream for ever; anew from its beginning if it broke."""
        tries = 0
        while True:
            try:
                await self._store_stream()
            except* GpuyardError as errors:
                tries += 1
                self._context.health.not_ready(f"the stream can't be read: {errors.exceptions[0]}")
                self._context.log.warning("reading the stream anew", error=str(errors.exceptions[0]))
            await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311

    async def _store_stream(self) -> None:
        await self._context.bus.ensure((LOGS_STREAM, REJECTS_STREAM))
        intake = Intake(self._config.round_bytes, self._config.round_messages)
        self._persist.through = NOTHING
        self._buffer = FollowBuffer(self._config.keep_bytes, self._config.keep_s)
        async with self._context.bus.read(LOGS_STREAM) as reader, asyncio.TaskGroup() as tasks:
            self._context.health.ready()
            tasks.create_task(self._receive(reader, intake))
            tasks.create_task(self._store_rounds(intake))

    async def _receive(self, reader: Reader, intake: Intake) -> None:
        async for message in reader:
            self._newest_seq = message.seq
            await intake.put(await self._parsed(message))

    async def _parsed(self, message: Message) -> Received:
        try:
            return Received(message, parse_batch(message))
        except InvalidSpec as error:
            await set_aside(self._context, message, error)
            return Received(message, None)

    async def _store_rounds(self, intake: Intake) -> None:
        while True:
            received = await intake.take()
            await self._persist.store(received)
            round_bytes = sum(len(one.message.payload) for one in received)
            self._buffer.add(received[-1].message.seq, round_bytes, self._context.clock.monotonic())

    async def _keep_trimming(self) -> None:
        """Remove from the stream what is stored and no longer kept for followers."""
        while True:
            await self._context.clock.sleep(self._config.trim_interval_s)
            before_seq = self._buffer.trim_before(self._context.clock.monotonic())
            if before_seq is None:
                continue
            try:
                if await self._is_stream_as_read():
                    await self._context.bus.trim(LOGS_STREAM, before_seq=before_seq)
            except GpuyardError as error:
                self._context.log.warning("stream not trimmed; the next time will do", error=str(error))

    async def _is_stream_as_read(self) -> bool:
        """Whether the stream holds what was read. One that lost data counts anew; nothing of it is stored."""
        through = self._persist.through
        newest = await self._context.bus.last(LOGS_STREAM, through.subject)
        return newest is not None and newest.seq >= through.seq
