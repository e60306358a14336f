"""Nodes as people want to see them: what each is, how it is doing, and which job holds which GPU."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Set
from contextlib import asynccontextmanager, suppress
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from gpuyard.bus.port import Bus, From, Subscription
from gpuyard.client import records
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.fact import ExecutorInfo
from gpuyard.contracts.hardware import Gpu, GpuSample, Health, Host, Inventory, NodeSample
from gpuyard.contracts.job import Job
from gpuyard.contracts.subjects import BEAT, EXECUTOR, INVENTORY, NODES_STREAM, SAMPLE, Channel

# Monitors publish once a second: who is not heard in this time does not publish.
SAMPLE_WAIT_S = 1.2

T = TypeVar("T")
Holders = Mapping[tuple[str, str], str]


class LinkView(Struct, frozen=True):
    """A link as one of its GPUs sees it."""

    uuid: Annotated[str, Meta(description="The GPU at the other end.")]
    index: int
    label: Annotated[str, Meta(description="`NV4`, `PIX`, `SYS` ...")]
    gb_s: float | None = None
    p2p: bool | None = None


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
    temperature_c: float | None = None
    holder: Annotated[str | None, Meta(description="The job that holds it.")] = None


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


async def read(bus: Bus, *, sample_wait_s: float = SAMPLE_WAIT_S) -> list[NodeView]:
    """Every known node, sorted by name.

    Args:
        sample_wait_s: How long to listen for samples and beats; 0 leaves measurements out and hears nobody.

    """
    async with bus.subscribe(SAMPLE.all) as heard, _listening(bus) as beating:
        inventories = await _newest(bus, INVENTORY, Inventory)
        executors = await _newest(bus, EXECUTOR, ExecutorInfo)
        held = holders(await records.everything(bus))
        samples = await _samples(heard, inventories.keys(), sample_wait_s)
    return [
        view(inventory, executors.get(node), samples.get(node), held, beats=node in beating)
        for node, inventory in sorted(inventories.items())
    ]


def holders(jobs: Iterable[Job]) -> dict[tuple[str, str], str]:
    """Which job holds which GPU of which node."""
    return {
        (slot.node, gpu): job.id
        for job in jobs
        if job.placement is not None and not job.state.is_final
        for slot in job.placement.slots
        for gpu in slot.gpus
    }


def view(
    inventory: Inventory,
    executor: ExecutorInfo | None,
    sample: NodeSample | None,
    held: Holders,
    *,
    beats: bool,
) -> NodeView:
    """Join what is known about one node."""
    measured = {gpu.uuid: gpu for gpu in sample.gpus} if sample else {}
    return NodeView(
        node=inventory.node,
        simulated=inventory.simulated,
        host=inventory.host,
        gpus=tuple(
            _gpu(
                gpu,
                _links(inventory, position),
                measured.get(gpu.uuid, GpuSample(gpu.uuid)),
                held.get((inventory.node, gpu.uuid)),
            )
            for position, gpu in enumerate(inventory.gpus)
        ),
        labels=inventory.labels,
        runtime=executor.runtime if executor else None,
        address=executor.address if executor else None,
        sampled_at_s=sample.at_s if sample else None,
        cpu=sample.cpu if sample else None,
        memory_used_bytes=sample.memory_used_bytes if sample else None,
        heard=beats or sample is not None,
    )


def _gpu(gpu: Gpu, links: tuple[LinkView, ...], sample: GpuSample, holder: str | None) -> GpuView:
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
        temperature_c=sample.temperature_c,
        holder=holder,
    )


def _links(inventory: Inventory, position: int) -> tuple[LinkView, ...]:
    return tuple(
        LinkView(other.uuid, other.index, link.label, link.gb_s, link.p2p)
        for link in inventory.links
        if position in (link.a, link.b)
        for other in [inventory.gpus[link.a + link.b - position]]
    )


async def _newest(bus: Bus, channel: Channel, kind: type[T]) -> dict[str, T]:
    """The newest message of each node on a channel, by node."""
    async with bus.read(NODES_STREAM, channel.all, start=From.LAST_PER_SUBJECT) as reader:
        found = {}
        while reader.backlog:
            message = await anext(reader)
            found[channel.ids(message.subject)["node"]] = decode(message.payload, kind)
        return found


@asynccontextmanager
async def _listening(bus: Bus) -> AsyncIterator[Set[str]]:
    """The nodes whose executors are heard meanwhile."""
    beating: set[str] = set()
    async with bus.subscribe(BEAT.all) as beats:
        task = asyncio.create_task(_note(beats, beating))
        try:
            yield beating
        finally:
            task.cancel()
            await asyncio.wait((task,))


async def _note(beats: Subscription, beating: set[str]) -> None:
    async for message in beats:
        beating.add(BEAT.ids(message.subject)["node"])


async def _samples(heard: Subscription, wanted: Set[str], wait_s: float) -> dict[str, NodeSample]:
    """One sample of each wanted node, of as many as speak in time."""
    samples: dict[str, NodeSample] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            while wanted - samples.keys():
                with suppress(InvalidSpec):  # not ours to judge; the monitor's next sample comes soon
                    sample = decode((await anext(heard)).payload, NodeSample)
                    samples[sample.node] = sample
    return samples
