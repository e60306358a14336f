"""What a node is (inventory) and how it is doing (samples). Unknown measurements are None, never 0."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.ids import GpuId, JobId, NodeId

Seconds = Annotated[float, Meta(description="Seconds since the epoch, UTC.")]
Frac = Annotated[float, Meta(ge=0, le=1, description="Fraction, 0 to 1.")]
Bytes = Annotated[int, Meta(ge=0, description="Bytes.")]
Rate = Annotated[float, Meta(ge=0, description="Bytes per second.")]


class Level(StrEnum):
    """How two devices reach each other over PCIe, closest first (names of `nvidia-smi topo -m`)."""

    SAME_BOARD = "BOARD"
    SINGLE_SWITCH = "PIX"
    MULTI_SWITCH = "PXB"
    HOST_BRIDGE = "PHB"
    SAME_NODE = "NODE"
    SYSTEM = "SYS"


class Basis(StrEnum):
    """Where a link's bandwidth comes from, the surest first."""

    MEASURED = "measured"
    MODEL = "model"
    TYPICAL = "typical"


class Link(Struct, frozen=True):
    """The link between two GPUs of a node, by their positions in `gpus`, `a < b`."""

    a: Annotated[int, Meta(ge=0, description="Index of one GPU in `gpus`.")]
    b: Annotated[int, Meta(ge=0, description="Index of the other GPU in `gpus`.")]
    level: Annotated[Level | None, Meta(description="PCIe level; None where NVLink hides it.")] = None
    nvlinks: Annotated[int, Meta(ge=0, le=64, description="Bonded NVLinks between the two.")] = 0
    gb_s: Annotated[float, Meta(ge=0, description="Bandwidth one way, GB/s.")] | None = None
    p2p: Annotated[bool | None, Meta(description="Whether peer-to-peer copies work.")] = None
    switched: Annotated[bool, Meta(description="The NVLinks go through switches, shared by all.")] = False
    basis: Annotated[
        Basis | None, Meta(description="`measured` by a probe, from the `model`'s table, or `typical`.")
    ] = None

    @property
    def label(self) -> str:
        """Name as people know it: `NV4`, `PIX`, `SYS`."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.level or "?"


class Health(StrEnum):
    """Whether work may be placed on a GPU."""

    OK = "ok"
    OUT = "out_of_service"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


class Fault(Struct, frozen=True):
    """A health rule that holds for a GPU."""

    rule: Annotated[str, Meta(description="One of those in docs/concepts/health.md: `lost`, `xid` ...")]
    reason: Annotated[str, Meta(description="What was seen.")]
    since_s: Seconds
    energy_j: (
        Annotated[float, Meta(ge=0, description="What the GPU's energy counter showed, J: falls at a reset.")]
        | None
    ) = None


class MigInstance(Struct, frozen=True):
    """A slice of a GPU in MIG mode."""

    uuid: GpuId
    memory_bytes: Bytes | None = None


class Fabric(Struct, frozen=True):
    """The NVLink domain that a GPU belongs to: GPUs of one clique reach each other over NVLink."""

    cluster: Annotated[str, Meta(description="UUID of the NVLink domain.")]
    clique: Annotated[int, Meta(ge=0, description="Clique within the domain.")]
    complete: Annotated[bool, Meta(description="Whether the GPU has joined it.")] = True


class Gpu(Struct, frozen=True):
    """One GPU as its driver describes it."""

    uuid: GpuId
    index: Annotated[int, Meta(ge=0, le=1023, description="Position on the node.")]
    model: Annotated[str, Meta(description="Product name.")] = ""
    memory_bytes: Bytes | None = None
    numa: Annotated[int | None, Meta(description="NUMA node of its CPU side.")] = None
    cpus: Annotated[str | None, Meta(description="Near CPUs as a list, `0-15,32-47`.")] = None
    health: Health = Health.OK
    health_reason: Annotated[str, Meta(description="Why it is not `ok`, and what clears it.")] = ""
    bus_id: Annotated[str, Meta(description="PCI bus id, `00000000:3B:00.0`.")] = ""
    compute_capability: Annotated[str, Meta(description="`9.0`; empty if unknown.")] = ""
    nvlinks: (
        Annotated[int, Meta(ge=0, description="NVLink ports that are active, or were since the boot.")] | None
    ) = None
    mig: Annotated[bool | None, Meta(description="Whether MIG mode is on.")] = None
    mig_instances: tuple[MigInstance, ...] = ()
    fabric: Fabric | None = None
    power_limit_w: Annotated[float, Meta(ge=0, description="Watts.")] | None = None
    faults: Annotated[tuple[Fault, ...], Meta(description="Why it is out of service.")] = ()


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
    advice: Annotated[str, Meta(description="What the node's operator must do, if anything.")] = ""
    allreduce_gb_s: Annotated[
        tuple[tuple[int, float], ...],
        Meta(description="Measured bus bandwidth of an all-reduce in GB/s, by number of GPUs."),
    ] = ()
    probed_at_s: Annotated[float | None, Meta(description="When a probe measured its links.")] = None
    source: Annotated[str, Meta(description="Where the hardware facts come from.")] = ""
    labels: dict[str, str] = {}

    def __post_init__(self) -> None:
        for link in self.links:
            if not link.a < link.b < len(self.gpus):
                raise ValueError(f"a link joins GPUs {link.a} and {link.b} of {len(self.gpus)}")
        if len({gpu.uuid for gpu in self.gpus}) < len(self.gpus):
            raise ValueError("two GPUs have the same UUID")


class GpuProcess(Struct, frozen=True):
    """A process on a GPU. `job` is the job it belongs to; None means that nobody scheduled it."""

    pid: Annotated[int, Meta(ge=0)]
    memory_bytes: Bytes | None = None
    user: str = ""
    name: Annotated[str, Meta(description="Name of the program.")] = ""
    job: JobId | None = None


class GpuSample(Struct, frozen=True):
    """One GPU at one moment."""

    uuid: GpuId
    utilisation: Annotated[
        Frac | None, Meta(description="Part of the last second with a kernel running.")
    ] = None
    memory_used_bytes: Bytes | None = None
    power_w: Annotated[float, Meta(ge=0, description="Watts.")] | None = None
    temperature_c: Annotated[float | None, Meta(description="Degrees Celsius.")] = None
    processes: Annotated[
        tuple[GpuProcess, ...] | None, Meta(description="Processes on the GPU; None if unknown.")
    ] = None
    clock_reasons: Annotated[
        tuple[str, ...] | None, Meta(description="Why its clocks are held down: `power_cap` ...")
    ] = None
    pcie_tx_bytes_s: Rate | None = None
    pcie_rx_bytes_s: Rate | None = None
    nvlink_tx_bytes_s: Rate | None = None
    nvlink_rx_bytes_s: Rate | None = None
    ecc_corrected: Annotated[int, Meta(ge=0, description="Memory errors corrected since boot.")] | None = None
    ecc_uncorrected: Annotated[int, Meta(ge=0, description="Not corrected, since boot.")] | None = None


class NodeSample(Struct, frozen=True):
    """One node at one moment. Losing one is harmless."""

    node: NodeId
    at_s: Seconds
    seq: Annotated[int, Meta(ge=0, description="Counts up from 0 since the monitor started.")]
    cpu: Annotated[Frac | None, Meta(description="Busy part of all CPUs.")] = None
    memory_used_bytes: Bytes | None = None
    gpus: tuple[GpuSample, ...] = ()
