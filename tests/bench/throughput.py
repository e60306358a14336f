"""No-op jobs of one GPU, from the first submit to the last recorded end; history kept, everything on disk."""

import asyncio
import time
from pathlib import Path

from gpuyard import AsyncClient, JobSpec, JobState, TaskSpec
from tests.bench.figures import Figure

JOBS = 500
RUNS = 3
_SUBMITTERS = 32


async def measure(yard: Path) -> list[Figure]:
    rates = tuple([await _run(yard) for _ in range(RUNS)])
    return [Figure("no-op jobs to recorded end", "jobs/s", rates, "at least 100/s", 100, more_is_better=True)]


async def _run(yard: Path) -> float:
    spec = JobSpec((TaskSpec(("true",), gpus=1),), name="noop")
    async with AsyncClient(dir=yard) as client:
        gate = asyncio.Semaphore(_SUBMITTERS)

        async def submit() -> str:
            async with gate:
                return (await client.submit(spec)).id

        started_s = time.monotonic()
        mine = await asyncio.gather(*(submit() for _ in range(JOBS)))
        await _all_ended(client, set(mine))
        return JOBS / (time.monotonic() - started_s)


async def _all_ended(client: AsyncClient, waiting: set[str]) -> None:
    """Follow all events from the beginning until each of these jobs has succeeded."""
    async for event in client.events(follow=True):
        if event.job in waiting and event.state.is_final:
            assert event.state is JobState.SUCCEEDED, event
            waiting.discard(event.job)
        if not waiting:
            return
