"""Time as a value: services take a clock, so that tests decide what time it is."""

import asyncio
import heapq
import itertools
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, UTC. May jump; never measure with it."""
        ...

    def monotonic(self) -> float:
        """Seconds that only go forward."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class FakeClock:
    """A clock that stands still until told to advance. Sleepers wake in the order of their times."""

    def __init__(self, start_s: float = 1_700_000_000.0) -> None:
        self._start_s = start_s
        self._passed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._start_s + self._passed_s

    def monotonic(self) -> float:
        return self._passed_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed_s + seconds, next(self._order), wake))
        await wake

    def advance(self, seconds: float) -> None:
        """Let time pass and wake whoever was due meanwhile."""
        self._passed_s += seconds
        while self._sleepers and self._sleepers[0][0] <= self._passed_s:
            _, _, wake = heapq.heappop(self._sleepers)
            if not wake.done():
                wake.set_result(None)
