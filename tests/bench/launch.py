"""From submit to the first process running, one job at a time on an idle yard."""

import time
from pathlib import Path

from gpuyard import AsyncClient, JobSpec, TaskSpec
from tests.bench.figures import Figure, percentile

JOBS_PER_RUN = 100
RUNS = 3
_WARM_UP = 5


async def measure(yard: Path) -> list[Figure]:
    runs = [await _run(yard) for _ in range(RUNS)]
    return [
        Figure(
            "submit to first process, p50",
            "ms",
            tuple(percentile(run, 50) for run in runs),
            "at most 15 ms",
            15,
        ),
        Figure(
            "submit to first process, p99",
            "ms",
            tuple(percentile(run, 99) for run in runs),
            "at most 60 ms",
            60,
        ),
    ]


async def _run(yard: Path) -> list[float]:
    spec = JobSpec((TaskSpec(("true",), gpus=1),), name="launch")
    waits_ms = []
    async with AsyncClient(dir=yard) as client:
        for number in range(JOBS_PER_RUN + _WARM_UP):
            submitted_s = time.time()
            job = await client.wait(await client.submit(spec))
            assert job.started_at_s is not None, job
            if number >= _WARM_UP:
                waits_ms.append((job.started_at_s - submitted_s) * 1000)
    return waits_ms
