"""What a user submits (JobSpec) and what becomes of it (Job)."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.hardware import Seconds
from gpuyard.contracts.ids import JobId, Name, NodeId, RequestId
from gpuyard.contracts.log_rule import LogRule
from gpuyard.contracts.pattern import compiled
from gpuyard.contracts.placement import Placement
from gpuyard.contracts.series import NAME_PATTERN

Text = Annotated[str, Meta(pattern=r"^[^\u0000]*$", max_length=131072, description="Any text without NUL.")]
EnvName = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,254}$(?!\n)")]


class TaskSpec(Struct, frozen=True):
    """One role of a job: a command, and how many ranks of it on how many GPUs."""

    command: Annotated[
        tuple[Text, ...], Meta(min_length=1, max_length=4096, description="Program and arguments.")
    ]
    name: Name = "main"
    gpus: Annotated[int, Meta(ge=0, le=65536, description="GPUs of all ranks together.")] = 0
    ranks: (
        Annotated[int, Meta(ge=1, le=65536, description="Members of the gang; default one per GPU, or 1.")]
        | None
    ) = None
    env: Annotated[dict[EnvName, Text], Meta(max_length=1024, description="Added environment.")] = {}
    secrets: Annotated[
        tuple[EnvName, ...],
        Meta(max_length=256, description="Variables whose values must never be seen in the output."),
    ] = ()
    image: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9._:/@-]*$(?!\n)",
            max_length=512,
            description="Container image; empty: the node's own.",
        ),
    ] = ""
    memory_bytes: (
        Annotated[int, Meta(ge=16 << 20, le=1 << 50, description="Memory of each rank; more ends it.")] | None
    ) = None
    cpus: Annotated[float, Meta(gt=0, le=4096, description="CPUs of each rank.")] | None = None
    shm_bytes: (
        Annotated[int, Meta(ge=1 << 16, le=1 << 50, description="Size of /dev/shm, part of the memory.")]
        | None
    ) = None

    def __post_init__(self) -> None:
        if not self.command or not self.command[0]:
            raise ValueError("the command is empty")
        counts: dict[str, object] = {"gpus": self.gpus, "ranks": 1 if self.ranks is None else self.ranks}
        for name, number in counts.items():
            if not isinstance(number, int):
                raise ValueError(f"`{name}` is {number!r}: it must be a whole number")
        if self.ranks == 0:
            raise ValueError("`ranks` is 0: a task has at least one rank")
        if self.gpus % self.rank_count:
            gpus = f"{self.gpus} GPU{'' if self.gpus == 1 else 's'}"
            raise ValueError(f"{gpus} can't be divided evenly between {self.rank_count} ranks")

    @property
    def rank_count(self) -> int:
        return max(self.gpus, 1) if self.ranks is None else self.ranks

    @property
    def gpus_per_rank(self) -> int:
        return self.gpus // self.rank_count


class MetricRule(Struct, frozen=True):
    """Which lines hold a number that is worth a curve, beside those that are found without a rule."""

    name: Annotated[str, Meta(pattern=NAME_PATTERN, description="Name of the series.")]
    pattern: Annotated[
        str,
        Meta(
            max_length=1024,
            description="Regular expression with a group `value`; perhaps also `step` and `total`.",
            examples=[r"reward (?P<value>[-0-9.]+) after game (?P<step>[0-9]+)"],
        ),
    ]

    def __post_init__(self) -> None:
        try:
            groups = compiled(self.pattern).groupindex
        except InvalidSpec as error:
            raise ValueError(error.message) from error
        if "value" not in groups:
            raise ValueError(
                f"the pattern of metric `{self.name}` has no group `value`: write (?P<value>...)"
            )


class JobSpec(Struct, frozen=True):
    """What a user submits. All ranks of all tasks are one gang: they start together or not at all."""

    tasks: Annotated[tuple[TaskSpec, ...], Meta(min_length=1, max_length=64, description="Roles.")]
    name: Name = "job"
    priority: Annotated[int, Meta(ge=-1000, le=1000, description="Higher goes first.")] = 0
    workdir: Annotated[
        str,
        Meta(pattern=r"^(sha256-[0-9a-f]{64})?$(?!\n)", description="Uploaded working directory, or empty."),
    ] = ""
    owner: Annotated[str, Meta(max_length=256, description="Who submitted it.")] = ""
    labels: Annotated[dict[str, str], Meta(max_length=64, description="Free key-value pairs.")] = {}
    grace_s: Annotated[
        float, Meta(ge=0, le=86400, description="Seconds between the stop signal and the kill.")
    ] = 10.0
    nodes: Annotated[
        tuple[NodeId, ...], Meta(max_length=1024, description="Only on these nodes; empty: on any.")
    ] = ()
    launch_deadline_s: Annotated[
        float, Meta(gt=0, le=86400, description="Seconds for all ranks to get ready.")
    ] = 120.0
    metrics: Annotated[
        tuple[MetricRule, ...], Meta(max_length=32, description="Own rules for numbers in the output.")
    ] = ()
    log_rules: Annotated[
        tuple[LogRule, ...], Meta(max_length=32, description="Own rules for lines of the output.")
    ] = ()

    def __post_init__(self) -> None:
        names = [task.name for task in self.tasks]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"two tasks are called `{min(twice)}`: give each a `name` of its own")

    @property
    def rank_count(self) -> int:
        return sum(task.rank_count for task in self.tasks)

    @property
    def gpu_count(self) -> int:
        return sum(task.gpus for task in self.tasks)


class JobState(StrEnum):
    """Where a job stands. The transitions are in gpuyard_scheduler.core.states."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in _FINAL


_FINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class ExitCause(StrEnum):
    """Why a rank or a job ended other than well."""

    USER_ERROR = "user_error"
    OOM = "oom"
    GPU_FAULT = "gpu_fault"
    NODE_LOST = "node_lost"
    PREEMPTED = "preempted"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    IMAGE = "image"
    LAUNCH = "launch"
    UNKNOWN = "unknown"


class Exit(Struct, frozen=True):
    """How a rank, or a job by its first failing rank, ended."""

    code: Annotated[int | None, Meta(description="Exit code; 128 + n for signal n; None if unknown.")]
    cause: Annotated[ExitCause | None, Meta(description="None when it ended well.")] = None
    message: Annotated[str, Meta(description="One sentence for people.")] = ""
    rank: Annotated[int, Meta(ge=0, description="The first rank that failed.")] | None = None
    node: NodeId | None = None


class Reason(Struct, frozen=True):
    """Why a job is where it is."""

    code: Annotated[str, Meta(description="Stable code; the vocabulary is in docs/concepts/jobs.md.")]
    message: Annotated[str, Meta(description="One sentence for people.")]
    hint: Annotated[str, Meta(description="What would help.")] = ""


class JobEvent(Struct, frozen=True):
    """Something that happened to a job."""

    kind: Annotated[str, Meta(description="Past tense or state: `queued`, `placed`, `rank_exited` …")]
    at_s: Seconds
    message: Annotated[str, Meta(description="One sentence for people.")]
    attempt: Annotated[int, Meta(ge=0, description="Attempt it belongs to; 0 before the first.")] = 0


class Job(Struct, frozen=True):
    """A job's record: the whole truth the scheduler keeps about it.

    Every message on the job's subject is the job as it is now (`state`, ...) and what led there (`events`):
    the subject's history is the job's event log.
    """

    id: JobId
    request_id: RequestId
    spec: JobSpec
    state: JobState
    version: Annotated[int, Meta(ge=1, description="Counts the records of this job.")]
    submitted_at_s: Seconds
    attempt: Annotated[int, Meta(ge=0, description="Current try, from 1; 0 before the first.")] = 0
    term: Annotated[int, Meta(ge=0, description="Reign of the scheduler that wrote this.")] = 0
    reason: Reason | None = None
    placement: Placement | None = None
    stop_cause: Annotated[
        ExitCause | None, Meta(description="Why it is stopping; `cancelled`, `user_error`, `launch` …")
    ] = None
    launches_failed: Annotated[int, Meta(ge=0, description="Attempts that never started.")] = 0
    rules_met: Annotated[
        tuple[tuple[int, Name], ...], Meta(description="Log rules whose line was found: attempt and name.")
    ] = ()
    no_retry: Annotated[str, Meta(description="The log rule that forbids another attempt; or empty.")] = ""
    placed_at_s: Seconds | None = None
    started_at_s: Seconds | None = None
    ended_at_s: Seconds | None = None
    exit: Exit | None = None
    events: Annotated[tuple[JobEvent, ...], Meta(description="What happened since the record before.")] = ()
    trace: Annotated[str, Meta(description="W3C traceparent of the submission.")] = ""
