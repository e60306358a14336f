"""Facts on their way to the bus: for each job one at a time, the newest next, until it is there."""

import asyncio
import random
from collections.abc import Callable, Mapping

from gpuyard.bus.port import Streams
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.fact import GangFact
from gpuyard.contracts.subjects import FACT
from gpuyard.runtime.clock import Clock
from gpuyard.runtime.retry import backoff_s
from gpuyard.telemetry.logs import Log

Headers = Mapping[str, str]


class Publisher:
    """Changes that come while one is under way collapse into the next; the newest always gets out."""

    def __init__(self, bus: Streams, clock: Clock, log: Log, published: Callable[[GangFact], None]) -> None:
        self._bus = bus
        self._clock = clock
        self._log = log
        self._published = published
        self._newest: dict[str, tuple[GangFact, Headers]] = {}
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def publish(self, fact: GangFact, headers: Headers) -> None:
        self._newest[fact.job] = fact, headers
        if fact.job not in self._under_way:
            self._under_way[fact.job] = asyncio.create_task(self._work_off(fact.job))

    async def close(self) -> None:
        for task in self._under_way.values():
            task.cancel()
        await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def _work_off(self, job: str) -> None:
        tries = 0
        try:
            while job in self._newest:
                fact, headers = self._newest.pop(job)
                if await self._try(fact, headers):
                    tries = 0
                    self._published(fact)
                    continue
                tries += 1
                self._newest.setdefault(job, (fact, headers))
                await self._clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter
        finally:
            del self._under_way[job]

    async def _try(self, fact: GangFact, headers: Headers) -> bool:
        try:
            await self._bus.append(FACT(node=fact.node, job=fact.job), encode(fact), headers=headers)
        except GpuyardError as error:
            self._log.warning("fact is published again", job=fact.job, error=str(error))
            return False
        return True
