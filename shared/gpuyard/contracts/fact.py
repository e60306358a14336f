"""What really runs: written by the executor of a node alone, believed by everybody."""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Seconds
from gpuyard.contracts.ids import GpuId, JobId, NodeId
from gpuyard.contracts.job import Exit


class RankState(StrEnum):
    """Where one rank stands. The transitions are in gpuyard_executor.core.states."""

    PREPARING = "preparing"
    READY = "ready"
    RUNNING = "running"
    EXITED = "exited"


class RankFact(Struct, frozen=True):
    """One rank as it is."""

    rank: Annotated[int, Meta(ge=0)]
    state: RankState
    gpus: Annotated[tuple[GpuId, ...], Meta(description="GPUs it holds on its node.")] = ()
    started_at_s: Seconds | None = None
    ended_at_s: Seconds | None = None
    exit: Annotated[Exit | None, Meta(description="Set once it has exited.")] = None


class GangFact(Struct, frozen=True):
    """All ranks of one attempt on one node. The newest replaces the ones before.

    `released` says that nothing of the attempt is left on the node: its GPUs may be given away.
    A fact without ranks, released, answers a stop for an attempt that never came.
    """

    node: NodeId
    job: JobId
    attempt: Annotated[int, Meta(ge=1)]
    term: Annotated[int, Meta(ge=0, description="Term of the newest order obeyed.")]
    at_s: Seconds
    ranks: tuple[RankFact, ...] = ()
    master_addr: Annotated[str, Meta(description="Where peers reach rank 0, set by its node.")] = ""
    master_port: Annotated[int, Meta(ge=1, le=65535, description="Port reserved for rank 0.")] | None = None
    released: bool = False


class ExecutorInfo(Struct, frozen=True):
    """An executor presents itself: at start and whenever this changes."""

    node: NodeId
    at_s: Seconds
    runtime: Annotated[Literal["process", "docker", "memory"], Meta(description="How it runs ranks.")]
    address: Annotated[str, Meta(description="Where other nodes reach this one.")]
    version: str = ""


class Beat(Struct, frozen=True):
    """An executor is alive. Missing beats mean unknown, not failed."""

    node: NodeId
    at_s: Seconds
