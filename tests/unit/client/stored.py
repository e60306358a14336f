"""A yard with jobs that have printed, and a logger that has stored it all."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from msgspec.structs import replace

from gpuyard.bus.memory import MemoryBus
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import InvalidSpec, Unavailable
from gpuyard.contracts.job import Job, JobSpec, JobState, TaskSpec
from gpuyard.contracts.log import LogBatch, LogQuery
from gpuyard.contracts.subjects import JOB, LOG_QUERY, STREAMS
from tests.unit.client.fake_yard import a_job
from tests.unit.logger.memory import MemoryStore


@dataclass
class StoredYard:
    bus: MemoryBus = field(default_factory=MemoryBus)
    store: MemoryStore = field(default_factory=MemoryStore)
    broken: set[str] = field(default_factory=set)
    """Jobs whose output can't be read."""
    page_bytes: int = 524288
    asked: list[LogQuery] = field(default_factory=list)

    async def add_job(
        self,
        name: str,
        at_s: float,
        *batches: LogBatch,
        attempts: int = 1,
        labels: dict[str, str] | None = None,
    ) -> Job:
        """A job that has ended, with this output."""
        spec = JobSpec((TaskSpec(("python", "train.py"), ranks=2),), name=name, labels=labels or {})
        job = replace(a_job(spec, at_s=at_s), state=JobState.SUCCEEDED, attempt=attempts, ended_at_s=at_s + 9)
        await self.bus.append(JOB(job=job.id), encode(job))
        self.store.append(replace(batch, job=job.id) for batch in batches)
        return job

    async def serve(self) -> None:
        async with self.bus.subscribe(LOG_QUERY()) as questions:
            async for question in questions:
                await self.bus.publish(question.reply, self._answer(question.payload))

    def _answer(self, payload: bytes) -> bytes:
        query = decode(payload, LogQuery)
        self.asked.append(query)
        if query.job in self.broken:
            return encode(Unavailable("the disk is on fire").to_failure())
        try:
            return encode(self.store.page(replace(query, max_bytes=self.page_bytes), 0))
        except InvalidSpec as error:
            return encode(error.to_failure())


@asynccontextmanager
async def stored_yard() -> AsyncIterator[StoredYard]:
    yard = StoredYard()
    await yard.bus.ensure(STREAMS)
    serving = asyncio.create_task(yard.serve())
    await asyncio.sleep(0)
    try:
        yield yard
    finally:
        serving.cancel()
        await asyncio.wait((serving,))
