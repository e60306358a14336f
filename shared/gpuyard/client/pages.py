"""Stored lines of a job, page by page, from whichever logger answers."""

import asyncio
from collections.abc import AsyncGenerator

from msgspec.structs import replace

from gpuyard.bus.port import Bus
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure, Unavailable, error_from
from gpuyard.contracts.log import LogPage, LogQuery
from gpuyard.contracts.subjects import LOG_QUERY

ANSWER_TIMEOUT_S = 5.0


async def ask(bus: Bus, query: LogQuery, *, timeout_s: float = ANSWER_TIMEOUT_S) -> LogPage:
    """One page.

    Raises:
        Unavailable: no logger answers, or it can't read its store now.

    """
    answer = await bus.request(LOG_QUERY(), encode(query), timeout_s=timeout_s)
    page: LogPage | Failure = decode(answer.payload, LogPage | Failure)
    if isinstance(page, Failure):
        raise error_from(page)
    return page


async def pages(bus: Bus, query: LogQuery, *, tries: int) -> AsyncGenerator[LogPage, None]:
    """All pages, the first one where the query's cursor stands.

    Raises:
        Unavailable: a page can't be had after so many tries.

    """
    after = dict(query.after)
    is_more = True
    while is_more:
        page = await _patiently(bus, query, tries)
        after |= dict(page.next)
        query = replace(query, after=tuple(sorted(after.items())), settling=page.settling)
        is_more = not page.complete
        yield page


async def _patiently(bus: Bus, query: LogQuery, tries: int) -> LogPage:
    for failed in range(1, tries):
        try:
            return await ask(bus, query)
        except Unavailable:
            await asyncio.sleep(min(2.0, 0.05 * 2.0**failed))
    return await ask(bus, query)
