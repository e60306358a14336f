"""Lines of several jobs side by side, merged by time as far as they are at hand together.

A job that is silent must not hold up the others for long: it is waited for once, and then no more until it
prints again.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress

from gpuyard.contracts.log import LogLine

AHEAD_LINES = 4096
PATIENCE_S = 0.2
"""How long a line waits for older ones of other jobs."""

Lines = AsyncGenerator[LogLine, None]


class _Feed:
    """What a job printed and nobody took yet."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.ahead: deque[LogLine] = deque()
        self.room = asyncio.Event()
        self.is_over = False
        self.is_quiet = False

    @property
    def is_awaited(self) -> bool:
        return not (self.ahead or self.is_over or self.is_quiet)


async def merged(sources: Sequence[Lines], *, beat_s: float | None = None) -> AsyncGenerator[list[LogLine]]:
    """Groups of lines that were at hand together; those of one source keep their order.

    Args:
        sources: Where they come from. All are closed in the end.
        beat_s: If nothing comes for so long, give an empty group.

    Raises:
        Exception: what broke a source, once the others have ended.

    """
    feeds = [_Feed(source) for source in sources]
    arrived = asyncio.Event()
    pours = [asyncio.create_task(_pour(feed, arrived)) for feed in feeds]
    try:
        while not all(feed.is_over and not feed.ahead for feed in feeds):
            arrived.clear()
            if group := _take(feeds):
                yield group
            elif not await _arrives(arrived, PATIENCE_S if any(feed.ahead for feed in feeds) else beat_s):
                for feed in feeds:
                    feed.is_quiet = feed.is_awaited or feed.is_quiet
                yield _take(feeds)
        for pour in pours:
            await pour
    finally:
        for pour in pours:
            pour.cancel()
        await asyncio.gather(*pours, return_exceptions=True)


async def _pour(feed: _Feed, arrived: asyncio.Event) -> None:
    """Read ahead, but not too far."""
    try:
        async with aclosing(feed.lines):
            async for line in feed.lines:
                feed.ahead.append(line)
                feed.is_quiet = False
                arrived.set()
                if len(feed.ahead) >= AHEAD_LINES:
                    feed.room.clear()
                    await feed.room.wait()
    finally:
        feed.is_over = True
        arrived.set()


def _take(feeds: list[_Feed]) -> list[LogLine]:
    """The lines that are known to be the oldest."""
    group: list[LogLine] = []
    while not any(feed.is_awaited for feed in feeds):
        full = [feed for feed in feeds if feed.ahead]
        if len(full) == 1:
            group += full[0].ahead
            full[0].ahead.clear()
        elif full:
            group.append(min(full, key=lambda feed: feed.ahead[0].at_s).ahead.popleft())
        else:
            break
    for feed in feeds:
        if len(feed.ahead) < AHEAD_LINES:
            feed.room.set()
    return group


async def _arrives(event: asyncio.Event, timeout_s: float | None) -> bool:
    with suppress(TimeoutError):
        return await asyncio.wait_for(event.wait(), timeout_s)
    return False
