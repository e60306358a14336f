"""Asking for the numbers that were found in a job's lines: page after page, from the partition's owner."""

import asyncio
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from msgspec.structs import replace

from gpuyard.bus.port import Bus
from gpuyard.client.progress import JobProgress, progress_of
from gpuyard.client.series import Point, Steps, points_of
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure, Unavailable, error_from
from gpuyard.contracts.job import Job, JobState
from gpuyard.contracts.log import partition_of
from gpuyard.contracts.series import NumberRow, SeriesPage, SeriesQuery, parse_rows
from gpuyard.contracts.subjects import SERIES_QUERY

ANSWER_TIMEOUT_S = 5.0
QUICK_TIMEOUT_S = 2.0
TRIES = 6
PROGRESS_ROWS = 8192
"""So many of the newest rows, over all ranks, tell how far a job is."""


async def points(
    bus: Bus, job: str, *, attempt: int | None, ranks: Collection[int] | None
) -> AsyncGenerator[Point, None]:
    """All points of an attempt, rank after rank.

    Raises:
        Unavailable: no logger answers.

    """
    steps: dict[int, Steps] = {}
    query = SeriesQuery(job, attempt, None if ranks is None else tuple(sorted(ranks)))
    async with aclosing(_pages(bus, query, timeout_s=ANSWER_TIMEOUT_S, tries=TRIES)) as pages:
        async for page in pages:
            for chunk in page.chunks:
                for point in points_of(chunk.rank, parse_rows(chunk), steps.setdefault(chunk.rank, Steps())):
                    yield point


async def progress(bus: Bus, job: Job) -> JobProgress | None:
    """How far a job is in its current attempt; None if it does not say, or no logger tells.

    A job that ended well is done, whatever it said last.
    """
    if not job.attempt:
        return None
    try:
        ranks = await _newest(bus, job)
    except Unavailable:
        return None
    found = progress_of(ranks, time.time())
    if found is None or not job.state.is_final:
        return found
    done = 1.0 if job.state is JobState.SUCCEEDED else found.fraction
    return replace(found, fraction=done, left_s=None, end_at_s=None)


async def _newest(bus: Bus, job: Job) -> dict[int, list[NumberRow]]:
    tail = max(16, PROGRESS_ROWS // job.spec.rank_count)
    query = SeriesQuery(job.id, job.attempt, tail=tail, max_bytes=524288)
    found: dict[int, list[NumberRow]] = {}
    async with aclosing(_pages(bus, query, timeout_s=QUICK_TIMEOUT_S, tries=1)) as pages:
        async for page in pages:
            for chunk in page.chunks:
                found.setdefault(chunk.rank, []).extend(parse_rows(chunk))
    return found


async def _pages(
    bus: Bus, query: SeriesQuery, *, timeout_s: float, tries: int
) -> AsyncGenerator[SeriesPage, None]:
    while True:
        page = await _page(bus, query, timeout_s=timeout_s, tries=tries)
        yield page
        if page.complete:
            return
        query = replace(query, attempt=page.attempt, after=page.next)


async def _page(bus: Bus, query: SeriesQuery, *, timeout_s: float, tries: int) -> SeriesPage:
    subject = SERIES_QUERY(partition=partition_of(query.job))
    for pause_s in (*(0.1 * 2**n for n in range(tries - 1)), None):
        try:
            answer = await bus.request(subject, encode(query), timeout_s=timeout_s)
        except Unavailable as error:
            if pause_s is None:
                raise Unavailable(
                    f"no logger tells the numbers of {query.job}: {error.message}",
                    "`gpuyard doctor` shows what is wrong with the yard.",
                ) from error
            await asyncio.sleep(pause_s)
        else:
            page: SeriesPage | Failure = decode(answer.payload, SeriesPage | Failure)
            if isinstance(page, Failure):
                raise error_from(page)
            return page
    raise AssertionError("the last try returns or raises")
