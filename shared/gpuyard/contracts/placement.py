"""Placement: the pure decision which rank runs where. Committed inside a job's record under a term."""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.ids import GpuId, Name, NodeId


class Slot(Struct, frozen=True):
    """One rank's place."""

    rank: Annotated[int, Meta(ge=0, description="Global rank in the gang.")]
    task: Name
    node: NodeId
    local_rank: Annotated[int, Meta(ge=0, description="Rank among those of the same node.")]
    node_rank: Annotated[int, Meta(ge=0, description="Position of the node in the gang.")]
    gpus: tuple[GpuId, ...] = ()


class PlacedLink(Struct, frozen=True):
    """A link between two GPUs of the placement."""

    node: NodeId
    a: GpuId
    b: GpuId
    label: Annotated[str, Meta(description="`NV4`, `PIX`, `SYS` ...")]
    gb_s: Annotated[float, Meta(ge=0, description="Bandwidth one way, GB/s.")] | None = None


class Alternative(Struct, frozen=True):
    """The best set of GPUs that was not taken, and why."""

    node: NodeId
    gpus: tuple[GpuId, ...]
    why: Annotated[str, Meta(description="One sentence for people.")]
    bottleneck_gb_s: Annotated[float, Meta(ge=0)] | None = None
    sum_gb_s: Annotated[float, Meta(ge=0)] | None = None


class Placement(Struct, frozen=True):
    """Every rank's place, and the links that the choice was made for."""

    slots: tuple[Slot, ...]
    links: Annotated[tuple[PlacedLink, ...], Meta(description="Links inside each node of the gang.")] = ()
    bottleneck_gb_s: (
        Annotated[float, Meta(ge=0, description="Slowest link of the best ring through the GPUs, GB/s.")]
        | None
    ) = None
    sum_gb_s: Annotated[float, Meta(ge=0, description="All their links together, GB/s.")] | None = None
    rejected: Annotated[tuple[Alternative, ...], Meta(description="The next best choices.")] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes of the gang in node-rank order."""
        return tuple(dict.fromkeys(slot.node for slot in self.slots))

    def on(self, node: str) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.slots if slot.node == node)
