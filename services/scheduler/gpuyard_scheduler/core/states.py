"""A job's life as a table. Everything about its transitions lives here; an unknown one raises."""

from gpuyard.contracts.job import JobState

QUEUED, STARTING, RUNNING, STOPPING = (
    JobState.QUEUED,
    JobState.STARTING,
    JobState.RUNNING,
    JobState.STOPPING,
)
SUCCEEDED, FAILED, CANCELLED = JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED

TRANSITIONS: dict[JobState, dict[str, JobState]] = {
    QUEUED: {"placed": STARTING, "cancelled": CANCELLED},
    STARTING: {"running": RUNNING, "stopping": STOPPING},
    RUNNING: {"succeeded": SUCCEEDED, "stopping": STOPPING},
    STOPPING: {"requeued": QUEUED, "failed": FAILED, "cancelled": CANCELLED},
    SUCCEEDED: {},
    FAILED: {},
    CANCELLED: {},
}
"""State, then what happened, then the next state. What happened is also the kind of the job's event."""


class UnknownTransition(Exception):
    """The machine tried something that the table does not know: a bug."""


def after(state: JobState, happened: str) -> JobState:
    """The state that follows."""
    try:
        return TRANSITIONS[state][happened]
    except KeyError:
        raise UnknownTransition(f"a {state} job can't be {happened}") from None
