"""Searching the output of all jobs: asks the loggers job by job, newest first, a page at a time.

Of the next few the first page is asked ahead, so that many small jobs don't wait for each other.
"""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import deque
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import aclosing
from itertools import islice
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuyard.bus.port import Bus
from gpuyard.client import records
from gpuyard.client.pages import pages
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.job import Job
from gpuyard.contracts.log import Cursor, LogLine, LogPage, LogQuery, lines_of
from gpuyard.linefilter import Filter

LIMIT = 1000
MOST_SCANNED_BYTES = 1024 * 1024 * 1024
"""Of text, for one answer; it then may hold few lines or none."""
_AHEAD = 8
_TRIES = 2
_CLOCKS_DIFFER_S = 3600.0


class Question(NamedTuple):
    """What is looked for. `jobs` None: all."""

    filter: Filter
    jobs: Collection[str] | None = None
    labels: Mapping[str, str] = {}
    ranks: Collection[int] | None = None


class Unasked(NamedTuple):
    """A job whose output could not be searched to its end, and why."""

    job: str
    why: str


class Found(NamedTuple):
    """A page of lines. `cursor` is empty when everything was searched."""

    lines: list[LogLine]
    cursor: str
    unasked: list[Unasked]
    scanned_bytes: int


class _Place(Struct, frozen=True, array_like=True):
    """Where a search goes on: in this attempt of this job, at these lines."""

    submitted_at_s: float
    job: str
    attempt: int
    after: Cursor = ()

    @property
    def age(self) -> tuple[float, str, int]:
        """Greater is searched earlier."""
        return self.submitted_at_s, self.job, self.attempt


async def search(bus: Bus, question: Question, *, limit: int = LIMIT, cursor: str = "") -> Found:
    """Search on from `cursor` until there are `limit` lines, enough was looked at, or nothing is left.

    Raises:
        InvalidSpec: the pattern is no regular expression, or the cursor is none.

    """
    if limit < 1:
        raise InvalidSpec("a search gives at least one line", "Set `limit` to 1 or more.")
    _ = question.filter.pattern  # refused here if it is none
    jobs = [job for job in await records.everything(bus) if _is_meant(job, question)]
    places = _places(jobs, _parse(cursor) if cursor else None)
    answer = _Answer(limit)
    ahead = _Ahead(bus, [_query(question, place) for place in places])
    try:
        for place, following in zip(places, [*places[1:], None], strict=True):
            rest = await answer.add(place, ahead.next())
            if answer.is_full and (rest or following):
                return answer.found(rest or following)
    finally:
        await ahead.close()
    return answer.found(None)


class _Answer:
    """What was found so far."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lines: list[LogLine] = []
        self._unasked: dict[str, str] = {}
        self._scanned_bytes = 0

    @property
    def is_full(self) -> bool:
        return len(self._lines) >= self._limit or self._scanned_bytes >= MOST_SCANNED_BYTES

    def found(self, following: _Place | None) -> Found:
        unasked = [Unasked(job, why) for job, why in self._unasked.items()]
        cursor = _render(following) if following else ""
        return Found(self._lines, cursor, unasked, self._scanned_bytes)

    async def add(self, place: _Place, found: AsyncGenerator[LogPage, None]) -> _Place | None:
        """Take pages of one attempt; where it goes on if this answer is full before its end."""
        after = dict(place.after)
        try:
            async with aclosing(found):
                async for page in found:
                    after |= dict(page.next) | self._take(page)
                    self._scanned_bytes += page.scanned_bytes
                    if self.is_full:
                        is_all = page.complete and after.items() >= dict(page.next).items()
                        return None if is_all else replace(place, after=tuple(sorted(after.items())))
        except GpuyardError as error:
            self._unasked.setdefault(place.job, error.message)
        return None

    def _take(self, page: LogPage) -> dict[int, int]:
        """Take lines of a page; of each rank the first line that there was no room for."""
        left: dict[int, int] = {}
        for line in (line for batch in page.batches for line in lines_of(batch)):
            if len(self._lines) < self._limit:
                self._lines.append(line)
            else:
                left.setdefault(line.rank, line.seq)
        return left


class _Ahead:
    """Pages of queries, of some of which the first page is asked ahead."""

    def __init__(self, bus: Bus, queries: Iterable[LogQuery]) -> None:
        self._todo = (pages(bus, query, tries=_TRIES) for query in queries)
        self._begun: deque[tuple[AsyncGenerator[LogPage, None], asyncio.Future[LogPage]]] = deque()

    async def next(self) -> AsyncGenerator[LogPage, None]:
        """The pages of the next query."""
        for coming in islice(self._todo, _AHEAD - len(self._begun)):
            self._begun.append((coming, asyncio.ensure_future(anext(coming))))
        coming, first = self._begun.popleft()
        async with aclosing(coming):
            yield await first
            async for page in coming:
                yield page

    async def close(self) -> None:
        for coming, first in self._begun:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await coming.aclose()


def _is_meant(job: Job, question: Question) -> bool:
    asked = question.jobs is None or job.id in question.jobs
    since_s, until_s = question.filter.since_s, question.filter.until_s
    too_old = since_s is not None and (job.ended_at_s or since_s) < since_s - _CLOCKS_DIFFER_S
    too_new = until_s is not None and job.submitted_at_s > until_s + _CLOCKS_DIFFER_S
    return asked and question.labels.items() <= job.spec.labels.items() and not (too_old or too_new)


def _places(jobs: Iterable[Job], start: _Place | None) -> list[_Place]:
    """Attempts to search, newest first."""
    everywhere = (
        _Place(job.submitted_at_s, job.id, attempt) for job in jobs for attempt in range(1, job.attempt + 1)
    )
    ordered = sorted(everywhere, key=lambda place: place.age, reverse=True)
    if start is None:
        return ordered
    return [start, *(place for place in ordered if place.age < start.age)]


def _query(question: Question, place: _Place) -> LogQuery:
    wanted = question.filter
    return LogQuery(
        place.job,
        place.attempt,
        None if question.ranks is None else tuple(sorted(question.ranks)),
        after=place.after,
        stream=wanted.stream,
        since_s=wanted.since_s,
        until_s=wanted.until_s,
        grep=wanted.grep,
        ignore_case=wanted.ignore_case,
    )


def _render(place: _Place) -> str:
    return urlsafe_b64encode(encode(place)).decode()


def _parse(cursor: str) -> _Place:
    try:
        return decode(urlsafe_b64decode(cursor), _Place)
    except (ValueError, InvalidSpec) as error:
        raise InvalidSpec(
            "this is no cursor of a search", "Give the `cursor` of an answer back unchanged."
        ) from error
