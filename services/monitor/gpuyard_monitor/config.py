"""Settings of the monitor: table `[monitor]`."""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.ids import NodeId
from gpuyard.runtime.config import ServiceConfig


class NodeConfig(Struct, frozen=True):
    """One node to speak for."""

    id: NodeId
    capture: Annotated[
        str, Meta(description="Captured topology to simulate: a name or a file. Empty: this machine.")
    ] = ""
    labels: Annotated[
        dict[str, str], Meta(description="What to know of it beyond its hardware: `rack`, `room` ...")
    ] = {}


class MonitorConfig(ServiceConfig, frozen=True, kw_only=True):
    """What the monitor can be told."""

    nodes: Annotated[
        tuple[NodeConfig, ...], Meta(description="Nodes to speak for. None: this machine, by its host name.")
    ] = ()
    sample_every_s: Annotated[float, Meta(ge=0.1, le=60, description="Seconds between two samples.")] = 1.0
    inventory_every_s: Annotated[
        float, Meta(ge=1, le=3600, description="Seconds after which the hardware is looked at anew.")
    ] = 60.0
    tolerated: Annotated[
        tuple[str, ...],
        Meta(description="Programs that may use GPUs although nobody scheduled them: screens and servers."),
    ] = ("Xorg", "Xwayland", "gnome-shell", "nvidia-cuda-mps", "nv-hostengine")

    def __post_init__(self) -> None:
        ids = [node.id for node in self.nodes]
        if len(set(ids)) < len(ids):
            raise ValueError("two nodes have the same id")
        if sum(not node.capture for node in self.nodes) > 1:
            raise ValueError("this machine can be one node only; give the others a `capture`")
