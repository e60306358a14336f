"""Facts on their way to the bus: for each job one at a time, the newest next, until it is there.

Each is written on the condition that the one before is the newest. So one that was given up for lost and
arrives late, from the buffers of a broken connection, can't take the place of what was told after it.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from contextlib import suppress

from gpuyard.bus.port import Expect, Streams
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import Conflict, GpuyardError
from gpuyard.contracts.fact import GangFact
from gpuyard.contracts.subjects import FACT, FACTS_STREAM
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
        self._seqs: dict[str, int] = {}
        """Sequence of each job's newest fact; 0 or missing: there is none."""

    def note(self, job: str, seq: int) -> None:
        """Where the newest fact of a job stands in the stream; 0: it has none any more."""
        if seq:
            self._seqs[job] = seq
        else:
            self._seqs.pop(job, None)

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
        subject = FACT(node=fact.node, job=fact.job)
        try:
            expect = Expect(subject, self._seqs.get(fact.job, 0))
            appended = await self._bus.append(subject, encode(fact), headers=headers, expect=expect)
        except Conflict:
            return await self._look_again(fact.job, subject)
        except GpuyardError as error:
            self._log.warning("fact is published again", job=fact.job, error=str(error))
            return False
        self.note(fact.job, appended.seq)
        return True

    async def _look_again(self, job: str, subject: str) -> bool:
        """An earlier try got through after all; nobody else writes here."""
        with suppress(GpuyardError):
            newest = await self._bus.last(FACTS_STREAM, subject)
            self.note(job, newest.seq if newest else 0)
        return False
