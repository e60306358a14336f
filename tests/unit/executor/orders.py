"""Builders of orders with defaults."""

from typing import Any

from gpuyard.contracts.job import ExitCause, TaskSpec
from gpuyard.contracts.order import Prepare, Start, Stop
from gpuyard.contracts.placement import Slot

NODE = "n1"


def slot(rank: int, *gpus: str, task: str = "main", node: str = NODE, local_rank: int | None = None) -> Slot:
    return Slot(rank, task, node, rank if local_rank is None else local_rank, 0, gpus)


def prepare(
    job: str = "j1", attempt: int = 1, *, term: int = 1, gpus: tuple[str, ...] = (), **fields: Any
) -> Prepare:
    """One rank on each GPU, or one without; the gang is on this node alone unless said otherwise."""
    slots = tuple(slot(rank, gpu) for rank, gpu in enumerate(gpus)) or (slot(0),)
    defaults = {
        "slots": slots,
        "tasks": (TaskSpec(("train",), gpus=len(gpus)),),
        "world_size": len(slots),
        "start_when_ready": True,
    }
    return Prepare(node=NODE, job=job, attempt=attempt, term=term, **{**defaults, **fields})


def start(job: str = "j1", attempt: int = 1, *, term: int = 1) -> Start:
    return Start(NODE, job, attempt, term, "10.0.0.9", 4242)


def stop(
    job: str = "j1",
    attempt: int = 1,
    *,
    term: int = 1,
    cause: ExitCause = ExitCause.CANCELLED,
    grace_s: float = 10.0,
) -> Stop:
    return Stop(NODE, job, attempt, term, cause, grace_s)
