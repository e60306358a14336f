"""Nodes as people want to see them: what each is, how it is doing, and which job holds which GPU."""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.fact import ExecutorInfo
from gpuyard.contracts.hardware import (
    Basis,
    Gpu,
    GpuProcess,
    GpuSample,
    Health,
    Host,
    Inventory,
    Level,
    MigInstance,
    NodeSample,
)
from gpuyard.contracts.job import Job


class LinkView(Struct, frozen=True):
    """A link as one of its GPUs sees it."""

    uuid: Annotated[str, Meta(description="The GPU at the other end.")]
    index: int
    label: Annotated[str, Meta(description="`NV4`, `PIX`, `SYS` ...")]
    gb_s: float | None = None
    p2p: bool | None = None
    level: Level | None = None
    nvlinks: int = 0
    switched: bool = False
    basis: Annotated[Basis | None, Meta(description="Where `gb_s` comes from.")] = None


class GpuView(Struct, frozen=True):
    """One GPU: what it is, how it is doing, who holds it."""

    uuid: str
    index: int
    model: str
    memory_bytes: int | None
    health: Health
    health_reason: str
    links: tuple[LinkView, ...]
    utilisation: float | None = None
    memory_used_bytes: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    holder: Annotated[str | None, Meta(description="The job that holds it.")] = None
    job_name: Annotated[str | None, Meta(description="Name of that job.")] = None
    owner: Annotated[str | None, Meta(description="Who submitted that job.")] = None
    processes: Annotated[
        tuple[GpuProcess, ...] | None, Meta(description="Those without `job` were scheduled by nobody.")
    ] = None
    clock_reasons: Annotated[tuple[str, ...] | None, Meta(description="Why its clocks are held down.")] = None
    pcie_tx_bytes_s: float | None = None
    pcie_rx_bytes_s: float | None = None
    nvlink_tx_bytes_s: float | None = None
    nvlink_rx_bytes_s: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    numa: int | None = None
    cpus: str | None = None
    bus_id: str = ""
    mig: bool | None = None
    mig_instances: tuple[MigInstance, ...] = ()


class NodeView(Struct, frozen=True):
    """One node. Measurements are None where no sample was heard."""

    node: str
    simulated: bool
    host: Host
    gpus: tuple[GpuView, ...]
    labels: dict[str, str]
    runtime: Annotated[str | None, Meta(description="How it runs ranks; None without an executor.")] = None
    address: str | None = None
    sampled_at_s: float | None = None
    cpu: float | None = None
    memory_used_bytes: int | None = None
    heard: Annotated[bool, Meta(description="Whether its monitor or its executor spoke just now.")] = False
    advice: Annotated[str, Meta(description="What the node's operator must do, if anything.")] = ""
    allreduce_gb_s: Annotated[
        tuple[tuple[int, float], ...], Meta(description="Measured all-reduce bandwidth, by number of GPUs.")
    ] = ()
    probed_at_s: float | None = None
    source: str = ""

    def has_free(self, gpu: GpuView) -> bool:
        """Whether a job could be given this GPU of the node now."""
        return self.heard and gpu.holder is None and gpu.health is Health.OK


def node_view(
    inventory: Inventory,
    links: tuple[tuple[LinkView, ...], ...],
    executor: ExecutorInfo | None,
    sample: NodeSample | None,
    holders: dict[str, Job],
    *,
    heard: bool,
) -> NodeView:
    """Join what is known about one node.

    Args:
        links: `links_by_gpu(inventory)`, which changes as seldom as the inventory.
        holders: The job that holds each GPU of this node, by UUID.

    """
    measured = {gpu.uuid: gpu for gpu in sample.gpus} if sample else {}
    return NodeView(
        node=inventory.node,
        simulated=inventory.simulated,
        host=inventory.host,
        gpus=tuple(
            _gpu_view(gpu, peers, measured.get(gpu.uuid) or GpuSample(gpu.uuid), holders.get(gpu.uuid))
            for gpu, peers in zip(inventory.gpus, links, strict=True)
        ),
        labels=inventory.labels,
        runtime=executor.runtime if executor else None,
        address=executor.address if executor else None,
        sampled_at_s=sample.at_s if sample else None,
        cpu=sample.cpu if sample else None,
        memory_used_bytes=sample.memory_used_bytes if sample else None,
        heard=heard,
        advice=inventory.advice,
        allreduce_gb_s=inventory.allreduce_gb_s,
        probed_at_s=inventory.probed_at_s,
        source=inventory.source,
    )


def links_by_gpu(inventory: Inventory) -> tuple[tuple[LinkView, ...], ...]:
    """The links of each GPU, in the order of `inventory.gpus`."""
    gpus = inventory.gpus
    views: list[list[LinkView]] = [[] for _ in gpus]
    for link in inventory.links:
        for here, there in ((link.a, link.b), (link.b, link.a)):
            views[here].append(
                LinkView(
                    gpus[there].uuid,
                    gpus[there].index,
                    link.label,
                    link.gb_s,
                    link.p2p,
                    link.level,
                    link.nvlinks,
                    link.switched,
                    link.basis,
                )
            )
    return tuple(tuple(peers) for peers in views)


def _gpu_view(gpu: Gpu, links: tuple[LinkView, ...], sample: GpuSample, holder: Job | None) -> GpuView:
    return GpuView(
        uuid=gpu.uuid,
        index=gpu.index,
        model=gpu.model,
        memory_bytes=gpu.memory_bytes,
        health=gpu.health,
        health_reason=gpu.health_reason,
        links=links,
        utilisation=sample.utilisation,
        memory_used_bytes=sample.memory_used_bytes,
        power_w=sample.power_w,
        power_limit_w=gpu.power_limit_w,
        temperature_c=sample.temperature_c,
        holder=holder.id if holder else None,
        job_name=holder.spec.name if holder else None,
        owner=holder.spec.owner if holder else None,
        processes=sample.processes,
        clock_reasons=sample.clock_reasons,
        pcie_tx_bytes_s=sample.pcie_tx_bytes_s,
        pcie_rx_bytes_s=sample.pcie_rx_bytes_s,
        nvlink_tx_bytes_s=sample.nvlink_tx_bytes_s,
        nvlink_rx_bytes_s=sample.nvlink_rx_bytes_s,
        ecc_corrected=sample.ecc_corrected,
        ecc_uncorrected=sample.ecc_uncorrected,
        numa=gpu.numa,
        cpus=gpu.cpus,
        bus_id=gpu.bus_id,
        mig=gpu.mig,
        mig_instances=gpu.mig_instances,
    )
