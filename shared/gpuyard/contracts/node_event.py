"""Something that happened to a node or one of its GPUs."""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Seconds
from gpuyard.contracts.ids import GpuId, NodeId


class NodeEvent(Struct, frozen=True):
    """One thing that happened; `kind` is one of those in docs/concepts/health.md."""

    node: NodeId
    kind: Annotated[str, Meta(description="`gpu_lost`, `gpu_out`, `gpu_ok`, `xid`, `driver_changed` ...")]
    at_s: Seconds
    message: Annotated[str, Meta(description="One sentence for people.")]
    gpu: Annotated[GpuId | None, Meta(description="The GPU it is about; None: the whole node.")] = None
