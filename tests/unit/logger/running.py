"""A logger on a bus in memory, and questions to it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

import structlog

from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.port import Bus, From
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure, Unavailable
from gpuyard.contracts.log import LogBatch, LogPage, LogQuery, partition_of
from gpuyard.contracts.segment import Segment
from gpuyard.contracts.subjects import (
    LOG,
    LOG_QUERY,
    LOGS_STREAM,
    REJECTS_STREAM,
    SEGMENT,
    SEGMENTS_STREAM,
)
from gpuyard.runtime.clock import Clock, FakeClock, SystemClock
from gpuyard.runtime.health import Health
from gpuyard.runtime.service import Context
from gpuyard.telemetry.metrics import Metrics
from gpuyard_logger.blobs import ObjectPlaces
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.service import LoggerService
from gpuyard_logger.shelf import Shelf

LIMIT_S = 60.0
BusT = TypeVar("BusT", bound=Bus)


def context_on(bus: Bus, clock: Clock | None = None) -> Context:
    return Context("logger", bus, clock or SystemClock(), Health(), Metrics(), structlog.get_logger())


@asynccontextmanager
async def running(
    bus: Bus,
    folder: Path,
    clock: Clock | None = None,
    places: ObjectPlaces | None = None,
    **settings: object,
) -> AsyncIterator[Context]:
    """A logger on this folder that serves; stopped at the end."""
    context = context_on(bus, clock)
    config = LoggerConfig(dir=str(folder), **{"seal_s": 0.001} | settings)  # type: ignore[arg-type]
    task = asyncio.create_task(LoggerService(config, context, Shelf(folder), places).run())
    try:
        await until(lambda: _is_ready(context), task)
        yield context
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def _is_ready(context: Context) -> bool:
    if isinstance(context.clock, FakeClock):
        context.clock.advance(0.01)  # it looks once in a while
    return context.health.is_ready


async def until(condition: Callable[[], bool], running: asyncio.Task[None] | None = None) -> None:
    """Wait until it holds, or what makes it hold has died."""
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            if running and running.done():
                running.result()
            await asyncio.sleep(0.001)


async def new_bus() -> MemoryBus:
    return await with_streams(MemoryBus())


async def with_streams(bus: BusT) -> BusT:
    await bus.ensure((LOGS_STREAM, REJECTS_STREAM, SEGMENTS_STREAM))
    return bus


async def records(bus: Bus) -> dict[str, Segment]:
    """What is recorded as stored."""
    found = {}
    async with bus.read(SEGMENTS_STREAM, SEGMENT.all, start=From.LAST_PER_SUBJECT) as reader:
        while reader.backlog:
            segment = decode((await anext(reader)).payload, Segment)
            found[segment.id] = segment
    return found


def subject_of(batch: LogBatch) -> str:
    return LOG(partition=partition_of(batch.job), job=batch.job, attempt=batch.attempt, rank=batch.rank)


async def write(bus: Bus, batches: Iterable[LogBatch], headers: dict[str, str] | None = None) -> int:
    """Append as an executor does; the last sequence."""
    seq = 0
    for batch in batches:
        seq = (await bus.append(subject_of(batch), encode(batch), headers=headers)).seq
    return seq


async def ask(bus: Bus, query: LogQuery | bytes, timeout_s: float = LIMIT_S) -> LogPage | Failure:
    payload = query if isinstance(query, bytes) else encode(query)
    answer = await bus.request(LOG_QUERY(), payload, timeout_s=timeout_s)
    page: LogPage | Failure = decode(answer.payload, LogPage | Failure)
    return page


async def ask_page(bus: Bus, query: LogQuery) -> LogPage:
    """The answer, once a logger has it. A question that a stopping logger had is asked again."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            with suppress(Unavailable):
                answer = await ask(bus, query, timeout_s=2.0)
                if isinstance(answer, LogPage):
                    return answer
            await asyncio.sleep(0.001)


async def stored_through(bus: Bus, seq: int, query: LogQuery) -> LogPage:
    """The answer of a logger that has stored the stream up to `seq`."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            with suppress(Unavailable):
                page = await ask(bus, query)
                assert isinstance(page, LogPage), page
                if page.through_seq >= seq:
                    return page
            await asyncio.sleep(0.001)
