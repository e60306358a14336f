"""Jobs that end, and a logger that looks at its rules all the time."""

import time
from itertools import count
from typing import Any

from gpuyard.bus.port import Bus
from gpuyard.contracts.codec import encode
from gpuyard.contracts.job import Job, JobSpec, JobState, TaskSpec
from gpuyard.contracts.log import LogQuery, partition_of
from gpuyard.contracts.subjects import JOB
from gpuyard.runtime.service import Context
from gpuyard_logger.config import KeepRule
from tests.unit.logger.batches import JOB as NEIGHBOUR
from tests.unit.logger.batches import batch
from tests.unit.logger.running import stored_through, until, write

DAY_S = 86400.0
BUSY: dict[str, Any] = {"keep_interval_s": 0.01, "trim_interval_s": 0.01, "readers_s": 0.0}
"""Settings of a logger that does now what it would do some time."""
MONTH = (KeepRule(age_days=30.0),)

_of_one_partition = (
    job for number in count() if partition_of(job := f"job-{number}") == partition_of(NEIGHBOUR)
)
OLD, YOUNG, RUNS = (next(_of_one_partition) for _ in range(3))
"""Jobs of one partition, so that they share segments."""


async def record(bus: Bus, job: str, ended_days_ago: float | None = None, **labels: str) -> None:
    """What the scheduler says of a job."""
    spec = JobSpec((TaskSpec(("train",)),), labels=labels)
    state = JobState.RUNNING if ended_days_ago is None else JobState.SUCCEEDED
    ended_at_s = None if ended_days_ago is None else time.time() - ended_days_ago * DAY_S
    await bus.append(JOB(job=job), encode(Job(job, "r", spec, state, 1, 0.0, ended_at_s=ended_at_s)))


async def printed(bus: Bus, *jobs: str, lines: int = 10) -> None:
    """Output of these jobs, one after the other, each line with its number in it."""
    await write(bus, [batch(0, lines, job=job, end=True) for job in jobs])


async def sealed(bus: Bus, context: Context, *jobs: str) -> None:
    """Wait until the output of these jobs is in segments."""
    for job in jobs:
        await stored_through(bus, 1, LogQuery(job, ranks=()))
    await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") > 0)


def metric(context: Context, name: str) -> float:
    lines = context.metrics.render().decode().splitlines()
    found = [float(line.split()[-1]) for line in lines if line.startswith(f"{name} ")]
    return found[0] if found else 0.0
