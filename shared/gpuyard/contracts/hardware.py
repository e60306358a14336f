"""What a node is (inventory) and how it is doing (samples). Unknown measurements are None, never 0."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.ids import GpuId, NodeId

Seconds = Annotated[float, Meta(description="Seconds since the epoch, UTC.")]
Frac = Annotated[float, Meta(ge=0, le=1, description="Fraction, 0 to 1.")]
Bytes = Annotated[int, Meta(ge=0, description="Bytes.")]


class Level(StrEnum):
    """How two devices reach each other over PCIe, closest first (names of `nvidia-smi topo -m`)."""

    SAME_BOARD = "BOARD"
    SINGLE_SWITCH = "PIX"
    MULTI_SWITCH = "PXB"
    HOST_BRIDGE = "PHB"
    SAME_NODE = "NODE"
    SYSTEM = "SYS"


class Link(Struct, frozen=True):
    """The link between two GPUs of a node, by their indices, `a < b`."""

    a: Annotated[int, Meta(ge=0, description="Index of one GPU in `gpus`.")]
    b: Annotated[int, Meta(ge=0, description="Index of the other GPU in `gpus`.")]
    level: Annotated[Level | None, Meta(description="PCIe level; None where NVLink hides it.")] = None
    nvlinks: Annotated[int, Meta(ge=0, le=64, description="Bonded NVLinks between the two.")] = 0
    gb_s: Annotated[float, Meta(ge=0, description="Bandwidth one way, GB/s.")] | None = None
    p2p: Annotated[bool | None, Meta(description="Whether peer-to-peer copies work.")] = None

    @property
    def label(self) -> str:
        """Name as people know it: `NV4`, `PIX`, `SYS`."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.level or "?"


class Health(StrEnum):
    """Whether work may be placed on a GPU."""

    OK = "ok"
    OUT = "out_of_service"
    UNKNOWN = "unknown"


class Gpu(Struct, frozen=True):
    """One GPU as its driver describes it."""

    uuid: GpuId
    index: Annotated[int, Meta(ge=0, le=1023, description="Position on the node.")]
    model: Annotated[str, Meta(description="Product name.")] = ""
    memory_bytes: Bytes | None = None
    numa: Annotated[int | None, Meta(description="NUMA node of its CPU side.")] = None
    cpus: Annotated[str | None, Meta(description="Near CPUs as a list, `0-15,32-47`.")] = None
    health: Health = Health.OK
    health_reason: Annotated[str, Meta(description="Why it is not `ok`.")] = ""


class Nic(Struct, frozen=True):
    """One network card and its level to each GPU."""

    name: str
    levels: Annotated[tuple[Level | None, ...], Meta(description="Level to each GPU, in order.")] = ()


class Host(Struct, frozen=True):
    """The machine around the GPUs."""

    hostname: str = ""
    cpus: Annotated[int, Meta(ge=1, description="Logical CPUs.")] | None = None
    memory_bytes: Bytes | None = None
    numa_nodes: Annotated[int, Meta(ge=1, description="NUMA nodes.")] | None = None
    kernel: str = ""
    driver: Annotated[str, Meta(description="GPU driver version.")] = ""
    boot_id: Annotated[str, Meta(description="Changes at every boot.")] = ""


class Inventory(Struct, frozen=True):
    """Slow-changing snapshot of one node. Written by that node's monitor alone."""

    node: NodeId
    at_s: Seconds
    host: Host = Host()
    gpus: Annotated[tuple[Gpu, ...], Meta(max_length=1024, description="In index order.")] = ()
    links: Annotated[tuple[Link, ...], Meta(description="One entry for each pair of GPUs.")] = ()
    nics: tuple[Nic, ...] = ()
    simulated: Annotated[bool, Meta(description="Hardware comes from a captured topology.")] = False
    source: Annotated[str, Meta(description="Where the hardware facts come from.")] = ""
    labels: dict[str, str] = {}

    def __post_init__(self) -> None:
        for link in self.links:
            if not link.a < link.b < len(self.gpus):
                raise ValueError(f"a link joins GPUs {link.a} and {link.b} of {len(self.gpus)}")
        if len({gpu.uuid for gpu in self.gpus}) < len(self.gpus):
            raise ValueError("two GPUs have the same UUID")


class GpuSample(Struct, frozen=True):
    """One GPU at one moment."""

    uuid: GpuId
    utilisation: Annotated[
        Frac | None, Meta(description="Part of the last second with a kernel running.")
    ] = None
    memory_used_bytes: Bytes | None = None
    power_w: Annotated[float, Meta(ge=0, description="Watts.")] | None = None
    temperature_c: Annotated[float | None, Meta(description="Degrees Celsius.")] = None
    pids: Annotated[tuple[int, ...] | None, Meta(description="Processes on the GPU; None if unknown.")] = None


class NodeSample(Struct, frozen=True):
    """One node at one moment. Losing one is harmless."""

    node: NodeId
    at_s: Seconds
    seq: Annotated[int, Meta(ge=0, description="Counts up from 0 since the monitor started.")]
    cpu: Annotated[Frac | None, Meta(description="Busy part of all CPUs.")] = None
    memory_used_bytes: Bytes | None = None
    gpus: tuple[GpuSample, ...] = ()
