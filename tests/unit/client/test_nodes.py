import asyncio
from collections.abc import AsyncIterator

import pytest

from gpuyard.client.aio import AsyncClient
from gpuyard.client.nodes import LinkView
from gpuyard.contracts.codec import encode
from gpuyard.contracts.fact import Beat, ExecutorInfo
from gpuyard.contracts.hardware import GpuSample, Inventory, NodeSample
from gpuyard.contracts.subjects import BEAT, EXECUTOR, SAMPLE
from tests.unit.client.fake_yard import NODE, FakeYard, a_job, a_spec, fake_yard


@pytest.fixture
async def yard() -> AsyncIterator[FakeYard]:
    async with fake_yard() as yard:
        yield yard


async def keep_publishing(yard: FakeYard, sample: NodeSample) -> None:
    while True:
        await yard.bus.publish(SAMPLE(node=sample.node), b"\xc1 a malformed one first")
        await yard.bus.publish(SAMPLE(node=sample.node), encode(sample))
        await asyncio.sleep(0.001)


async def test_what_is_known_of_a_node_is_joined(yard: FakeYard) -> None:
    await yard.add_node()
    await yard.bus.append(EXECUTOR(node=NODE), encode(ExecutorInfo(NODE, 1.0, "process", "127.0.0.1")))
    job = await yard.start(await yard.record(a_job(a_spec(gpus=2))))
    sample = NodeSample(NODE, 6.0, 0, cpu=0.25, gpus=(GpuSample("GPU-a", utilisation=0.5, power_w=99.0),))
    publishing = asyncio.create_task(keep_publishing(yard, sample))
    async with AsyncClient(bus=yard.bus) as client:
        (node,) = await client.nodes(sample_wait_s=30)
    publishing.cancel()
    assert (node.node, node.simulated, node.runtime, node.cpu) == (NODE, True, "process", 0.25)
    assert node.heard
    assert [gpu.holder for gpu in node.gpus] == [job.id, None, None, job.id]
    assert [gpu.utilisation for gpu in node.gpus] == [0.5, None, None, None]
    assert node.gpus[3].links == (
        LinkView("GPU-a", 0, "NV2", 48.0),
        LinkView("GPU-b", 1, "SYS", 8.0),
        LinkView("GPU-c", 2, "NV1", 24.0),
    )


async def test_ended_jobs_hold_nothing(yard: FakeYard) -> None:
    await yard.add_node()
    await yard.end(await yard.start(await yard.record(a_job(a_spec(gpus=2)))))
    async with AsyncClient(bus=yard.bus) as client:
        (node,) = await client.nodes(sample_wait_s=0)
    assert not any(gpu.holder for gpu in node.gpus)


async def test_silent_nodes_are_shown_without_measurements(yard: FakeYard) -> None:
    await yard.add_node(Inventory("b", 1.0))
    await yard.add_node(Inventory("a", 1.0))
    async with AsyncClient(bus=yard.bus) as client:
        nodes = await client.nodes(sample_wait_s=0.01)
    assert [(node.node, node.sampled_at_s, node.cpu, node.runtime, node.heard) for node in nodes] == [
        ("a", None, None, None, False),
        ("b", None, None, None, False),
    ]


async def test_a_beat_is_a_sign_of_life_too(yard: FakeYard) -> None:
    async def keep_beating() -> None:
        while True:
            await yard.bus.publish(BEAT(node="a"), encode(Beat("a", 1.0)))
            await asyncio.sleep(0.001)

    await yard.add_node(Inventory("a", 1.0))
    await yard.add_node(Inventory("b", 1.0))
    beating = asyncio.create_task(keep_beating())
    async with AsyncClient(bus=yard.bus) as client:
        nodes = await client.nodes(sample_wait_s=0.2)
    beating.cancel()
    assert [(node.node, node.sampled_at_s, node.heard) for node in nodes] == [
        ("a", None, True),
        ("b", None, False),
    ]
