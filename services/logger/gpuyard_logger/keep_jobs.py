"""Whether a job has ended: the scheduler's record says so, or is gone."""

from gpuyard.bus.port import Bus
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.job import Job
from gpuyard.contracts.subjects import JOB, STATE_STREAM
from gpuyard_logger.keep_index import Ended

GONE_S = 3600.0
"""A job without a record counts as ended once it printed nothing for so long."""


async def end_of(bus: Bus, job: str, last_at_s: float, now_s: float) -> Ended | None:
    """How a job ended that printed last at `last_at_s`; None if it has not, or that can't be told.

    Raises:
        Unavailable: the bus does not answer.

    """
    message = await bus.last(STATE_STREAM, JOB(job=job))
    if message is None:
        return Ended(last_at_s, {}) if now_s - last_at_s > GONE_S else None
    try:
        record = decode(message.payload, Job)
    except InvalidSpec:
        # Written by a newer scheduler, perhaps: what can't be read must not cost a job its output.
        return None
    if not record.state.is_final:
        return None
    return Ended(message.at_s if record.ended_at_s is None else record.ended_at_s, record.spec.labels)
