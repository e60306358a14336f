"""What the scheduler tells an executor to do. Idempotent: an order seen twice does nothing the second time.

The key of an order is (job, attempt); an executor refuses orders of a term older than the newest it has seen.
"""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Seconds
from gpuyard.contracts.ids import JobId, NodeId
from gpuyard.contracts.job import ExitCause, TaskSpec
from gpuyard.contracts.placement import Slot

Attempt = Annotated[int, Meta(ge=1, description="Try to run the gang, from 1.")]
Term = Annotated[int, Meta(ge=0, description="Reign of the scheduler that gave the order.")]


class Prepare(Struct, frozen=True, tag="prepare", tag_field="type"):
    """Get these ranks ready to start; start at once if the whole gang is on this node.

    After `expires_at_s` it is not begun any more; executors allow 300 s for clocks that differ.
    """

    node: NodeId
    job: JobId
    attempt: Attempt
    term: Term
    slots: Annotated[tuple[Slot, ...], Meta(min_length=1, description="Ranks of this node, all of them.")]
    tasks: Annotated[tuple[TaskSpec, ...], Meta(description="The job's roles.")]
    world_size: Annotated[int, Meta(ge=1, description="Ranks of the whole gang.")]
    workdir: Annotated[str, Meta(description="Uploaded working directory, or empty.")] = ""
    start_when_ready: Annotated[bool, Meta(description="The gang is on this node alone.")] = False
    grace_s: Annotated[float, Meta(ge=0, description="Seconds between stop signal and kill.")] = 10.0
    expires_at_s: Seconds | None = None


class Start(Struct, frozen=True, tag="start", tag_field="type"):
    """Every rank of the gang is ready: run."""

    node: NodeId
    job: JobId
    attempt: Attempt
    term: Term
    master_addr: Annotated[str, Meta(description="Address of the node of rank 0.")]
    master_port: Annotated[int, Meta(ge=1, le=65535, description="Port reserved there.")]


class Stop(Struct, frozen=True, tag="stop", tag_field="type"):
    """End these ranks: signal, grace, kill. Also answers for an attempt that never came."""

    node: NodeId
    job: JobId
    attempt: Attempt
    term: Term
    cause: ExitCause
    grace_s: Annotated[float, Meta(ge=0, description="Seconds between stop signal and kill.")] = 10.0


Order = Prepare | Start | Stop
