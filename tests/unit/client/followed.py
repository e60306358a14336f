"""A logger that does as it is told, and followers of it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from gpuyard.bus.memory import MemoryBus
from gpuyard.client.follow import follow
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure, InvalidSpec
from gpuyard.contracts.log import LogBatch, LogLine, LogPage, LogQuery
from gpuyard.contracts.subjects import LOG_QUERY, LOGS_STREAM
from tests.unit.logger.batches import JOB
from tests.unit.logger.memory import MemoryStore
from tests.unit.logger.running import new_bus

LIMIT_S = 60.0


@dataclass
class Logger:
    """A logger that stores, trims, comes and goes when told to."""

    bus: MemoryBus
    store: MemoryStore = field(default_factory=MemoryStore)
    through_seq: int = 0
    page_bytes: int = 524288
    questions: int = 0
    _serving: asyncio.Task[None] | None = None

    async def persist(self, count: int | None = None) -> None:
        """Store the next messages of the stream, or all."""
        async with self.bus.read(LOGS_STREAM, start=self.through_seq + 1) as reader:
            for _ in range(reader.backlog if count is None else min(count, reader.backlog)):
                message = await anext(reader)
                self.store.append([decode(message.payload, LogBatch)])
                self.through_seq = message.seq

    async def trim(self) -> None:
        await self.bus.trim(LOGS_STREAM, before_seq=self.through_seq + 1)

    async def come(self) -> None:
        if self._serving is None:
            self._serving = asyncio.create_task(self._serve())
            await asyncio.sleep(0)

    async def go(self) -> None:
        if self._serving is not None:
            self._serving.cancel()
            with suppress(asyncio.CancelledError):
                await self._serving
            self._serving = None

    async def _serve(self) -> None:
        async with self.bus.subscribe(LOG_QUERY(), group="loggers") as questions:
            async for question in questions:
                self.questions += 1
                await self.bus.publish(question.reply, encode(self._answer(question.payload)))

    def _answer(self, question: bytes) -> LogPage | Failure:
        try:
            query = replace(decode(question, LogQuery), max_bytes=self.page_bytes)
        except InvalidSpec as error:
            return error.to_failure()
        return self.store.page(query, self.through_seq)


@asynccontextmanager
async def world() -> AsyncIterator[Logger]:
    logger = Logger(await new_bus())
    await logger.come()
    try:
        yield logger
    finally:
        await logger.go()


@dataclass
class Followed:
    """A follower at work and what it gave so far."""

    lines: list[LogLine] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def seqs(self, rank: int = 0) -> list[int]:
        return [line.seq for line in self.lines if line.rank == rank]

    async def end(self) -> None:
        assert self.task
        async with asyncio.timeout(LIMIT_S):
            await self.task

    async def until(self, condition: Callable[["Followed"], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not condition(self):
                assert self.task
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0)


@asynccontextmanager
async def following(logger: Logger, **how: object) -> AsyncIterator[Followed]:
    followed = Followed()

    async def collect() -> None:
        async for line in follow(logger.bus, JOB, notice=followed.notices.append, **how):  # type: ignore[arg-type]
            followed.lines.append(line)

    followed.task = asyncio.create_task(collect())
    try:
        yield followed
    finally:
        followed.task.cancel()
        with suppress(asyncio.CancelledError):
            await followed.task
