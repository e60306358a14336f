"""What a job prints, followed through all of its attempts to the end.

The end of an output is marked in the output itself. A rank that never started, or whose node was lost, marks
nothing; so once the scheduler says that an attempt is over, silence counts as its end too.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import aclosing
from typing import NamedTuple

from gpuyard.bus.port import Bus
from gpuyard.client import follow, records
from gpuyard.contracts.job import Job, JobState
from gpuyard.contracts.log import LogLine
from gpuyard.linefilter import Filter

QUIET_S = 5.0
NEVER_RAN_QUIET_S = 1.0
AHEAD_LINES = 4096

Notice = Callable[[str], None]


def say_nothing(_text: str) -> None:
    """A notice nobody reads."""


class Wanted(NamedTuple):
    """Which lines a reader wants, and who is told what they should know about them."""

    attempt: int | None
    ranks: Collection[int] | None
    tail: int | None
    filter: Filter
    notice: Notice


def stored(bus: Bus, job: Job, wanted: Wanted) -> AsyncGenerator[LogLine, None]:
    """What was printed so far."""
    return _follow(bus, job, wanted, live=False)


async def live(bus: Bus, job: Job, wanted: Wanted) -> AsyncGenerator[LogLine, None]:
    """What is printed, in the wanted attempt or from the current one on, until there can be no more."""
    async with aclosing(_attempts(bus, job.id, wanted.attempt)) as attempts:
        async for number in attempts:
            over = asyncio.create_task(_over(bus, job.id, number))
            lines = _follow(bus, job, wanted._replace(attempt=number), live=True)
            try:
                async with aclosing(_until_silent(lines, over, wanted.notice)) as heard:
                    async for line in heard:
                        yield line
            finally:
                over.cancel()
            wanted = wanted._replace(tail=None)


def _follow(bus: Bus, job: Job, wanted: Wanted, *, live: bool) -> AsyncGenerator[LogLine, None]:
    return follow.follow(
        bus,
        job.id,
        attempt=wanted.attempt,
        ranks=wanted.ranks,
        tail=wanted.tail,
        live=live,
        expected_ranks=job.spec.rank_count,
        wanted=wanted.filter,
        notice=wanted.notice,
    )


async def _attempts(bus: Bus, job: str, only: int | None) -> AsyncGenerator[int, None]:
    """Numbers of attempts as they begin, the current one first."""
    last = 0
    async with aclosing(records.changes(bus, job)) as changes:
        async for record in changes:
            if only is not None and record.attempt >= only:
                yield only
                return
            if only is None and record.attempt > last:
                last = record.attempt
                yield last


async def _over(bus: Bus, job: str, attempt: int) -> bool:
    """Wait until the scheduler says that the attempt is over; tell whether it ever ran."""
    ran = False
    async with aclosing(records.changes(bus, job)) as changes:
        async for record in changes:
            if record.attempt == attempt:
                ran = ran or record.started_at_s is not None
            if record.attempt > attempt or record.state is JobState.QUEUED:
                break
    return ran


async def _until_silent(
    lines: AsyncIterator[LogLine], over: asyncio.Task[bool], notice: Notice
) -> AsyncGenerator[LogLine, None]:
    """The lines until they end, or until nothing comes any more after the attempt is over."""
    ahead: asyncio.Queue[LogLine | None] = asyncio.Queue(AHEAD_LINES)
    pour = asyncio.create_task(_pour(lines, ahead))
    try:
        while line := await _next(ahead, over):
            yield line
        await pour
    except TimeoutError:
        if over.result():
            notice("the output ends here without its end mark; some of it may be missing")
    finally:
        pour.cancel()


async def _pour(lines: AsyncIterator[LogLine], ahead: asyncio.Queue[LogLine | None]) -> None:
    """Read ahead; None follows the last line, and whatever broke the reading."""
    try:
        async for line in lines:
            await ahead.put(line)
    except Exception:  # the reader must wake up before it can meet the error
        await ahead.put(None)
        raise
    await ahead.put(None)


async def _next(ahead: asyncio.Queue[LogLine | None], over: asyncio.Task[bool]) -> LogLine | None:
    if not ahead.empty():
        return ahead.get_nowait()
    arrived = asyncio.ensure_future(ahead.get())
    try:
        await asyncio.wait((arrived, over), return_when=asyncio.FIRST_COMPLETED)
        return await asyncio.wait_for(arrived, _patience_s(over.result()) if over.done() else None)
    finally:
        arrived.cancel()


def _patience_s(ran: bool) -> float:
    return QUIET_S if ran else NEVER_RAN_QUIET_S
