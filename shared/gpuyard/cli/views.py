"""What `--json` prints about jobs. Values of environment variables may be secrets: only names are shown."""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.client.progress import JobProgress
from gpuyard.contracts.job import Exit, Job, JobState, Reason, TaskSpec
from gpuyard.contracts.placement import Placement


class TaskView(Struct, frozen=True):
    """One role of a job."""

    name: str
    command: tuple[str, ...]
    gpus: int
    ranks: int
    env: Annotated[tuple[str, ...], Meta(description="Names of added variables.")]


class JobView(Struct, frozen=True, tag="job", tag_field="type"):
    """A job as commands print it. Fields are only ever added."""

    id: str
    name: str
    state: JobState
    attempt: int
    reason: Reason | None
    placement: Placement | None
    exit: Exit | None
    priority: int
    owner: str
    labels: dict[str, str]
    gpus: int
    ranks: int
    tasks: tuple[TaskView, ...]
    workdir: str
    nodes: Annotated[tuple[str, ...], Meta(description="The only nodes it may run on; empty: any.")]
    submitted_at_s: float
    placed_at_s: float | None
    started_at_s: float | None
    ended_at_s: float | None
    version: int
    request_id: str
    progress: Annotated[JobProgress | None, Meta(description="Told by `show` only.")] = None


def job_view(job: Job, progress: JobProgress | None = None) -> JobView:
    """The job as commands print it."""
    spec = job.spec
    return JobView(
        id=job.id,
        name=spec.name,
        state=job.state,
        attempt=job.attempt,
        reason=job.reason,
        placement=job.placement,
        exit=job.exit,
        priority=spec.priority,
        owner=spec.owner,
        labels=spec.labels,
        gpus=spec.gpu_count,
        ranks=spec.rank_count,
        tasks=tuple(_task(task) for task in spec.tasks),
        workdir=spec.workdir,
        nodes=spec.nodes,
        submitted_at_s=job.submitted_at_s,
        placed_at_s=job.placed_at_s,
        started_at_s=job.started_at_s,
        ended_at_s=job.ended_at_s,
        version=job.version,
        request_id=job.request_id,
        progress=progress,
    )


def _task(task: TaskSpec) -> TaskView:
    return TaskView(task.name, task.command, task.gpus, task.rank_count, tuple(sorted(task.env)))
