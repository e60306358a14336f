import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from gpuyard.bus.memory import MemoryBus
from gpuyard.client.aio import AsyncClient
from gpuyard.client.node_calls import Nodes
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import Fault, Unavailable
from gpuyard.contracts.fact import Beat, ExecutorInfo
from gpuyard.contracts.hardware import GpuSample, Inventory, NodeSample
from gpuyard.contracts.subjects import (
    BEAT,
    EXECUTOR,
    INVENTORY,
    JOB,
    NODES_STREAM,
    SAMPLE,
    STATE_STREAM,
    Channel,
)
from tests.unit.client.fake_yard import NODE, FakeYard, a_job, a_spec, fake_yard

BUSY = NodeSample(NODE, 6.0, 0, cpu=0.25, gpus=(GpuSample("GPU-a", utilisation=0.5, power_w=99.0),))


@pytest.fixture
async def yard() -> AsyncIterator[FakeYard]:
    async with fake_yard() as yard:
        yield yard


@pytest.fixture
async def client(yard: FakeYard) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(bus=yard.bus) as client:
        yield client


async def test_what_is_known_of_a_node_is_joined(yard: FakeYard, client: AsyncClient) -> None:
    await yard.add_node()
    await yard.bus.append(EXECUTOR(node=NODE), encode(ExecutorInfo(NODE, 1.0, "process", "127.0.0.1")))
    job = await yard.start(await yard.record(a_job(a_spec(gpus=2))))
    yard.samples[NODE] = BUSY
    (node,) = await client.nodes(sample_wait_s=30)
    assert (node.node, node.simulated, node.runtime, node.cpu) == (NODE, True, "process", 0.25)
    assert node.heard
    assert [gpu.holder for gpu in node.gpus] == [job.id, None, None, job.id]
    assert [gpu.utilisation for gpu in node.gpus] == [0.5, None, None, None]
    assert [(link.index, link.label, link.gb_s) for link in node.gpus[3].links] == [
        (0, "NV2", 48.0),
        (1, "SYS", 8.0),
        (2, "NV1", 24.0),
    ]


async def test_malformed_samples_are_passed_over(yard: FakeYard, client: AsyncClient) -> None:
    async def keep_publishing() -> None:
        while True:
            await yard.bus.publish(SAMPLE(node=NODE), b"\xc1 a malformed one first")
            await yard.bus.publish(SAMPLE(node=NODE), encode(BUSY))
            await asyncio.sleep(0.001)

    await yard.add_node()
    publishing = asyncio.create_task(keep_publishing())
    (node,) = await client.nodes(sample_wait_s=30)
    publishing.cancel()
    assert node.cpu == 0.25


async def test_ended_jobs_hold_nothing(yard: FakeYard, client: AsyncClient) -> None:
    await yard.add_node()
    await yard.end(await yard.start(await yard.record(a_job(a_spec(gpus=2)))))
    (node,) = await client.nodes(sample_wait_s=0)
    assert not any(gpu.holder for gpu in node.gpus)


async def test_silent_nodes_are_shown_without_measurements(yard: FakeYard, client: AsyncClient) -> None:
    await yard.add_node(Inventory("b", 1.0))
    await yard.add_node(Inventory("a", 1.0))
    nodes = await client.nodes(sample_wait_s=0.01)
    assert [(node.node, node.sampled_at_s, node.cpu, node.runtime, node.heard) for node in nodes] == [
        ("a", None, None, None, False),
        ("b", None, None, None, False),
    ]


async def test_a_beat_is_a_sign_of_life_too(yard: FakeYard, client: AsyncClient) -> None:
    async def keep_beating() -> None:
        while True:
            await yard.bus.publish(BEAT(node="a"), encode(Beat("a", 1.0)))
            await asyncio.sleep(0.001)

    await yard.add_node(Inventory("a", 1.0))
    await yard.add_node(Inventory("b", 1.0))
    beating = asyncio.create_task(keep_beating())
    nodes = await client.nodes(sample_wait_s=0.2)
    beating.cancel()
    assert [(node.node, node.sampled_at_s, node.heard) for node in nodes] == [
        ("a", None, True),
        ("b", None, False),
    ]


@pytest.mark.parametrize("channel", [INVENTORY, EXECUTOR])
async def test_a_record_that_cannot_be_read_is_named(
    yard: FakeYard, client: AsyncClient, channel: Channel
) -> None:
    await yard.bus.append(channel(node="a"), b"\xc1")
    with pytest.raises(Fault, match=channel(node="a")):
        await client.nodes(sample_wait_s=0)


async def test_without_streams_there_are_no_nodes_to_read() -> None:
    async with AsyncClient(bus=MemoryBus()) as client:
        with pytest.raises(Unavailable):
            await client.nodes(sample_wait_s=0)


async def until(views: AsyncIterator[Nodes], *wanted: object) -> None:
    """Look on until the first node's first GPU is held and as busy as wanted."""
    async with asyncio.timeout(30):
        async for nodes in views:
            if nodes and (nodes[0].gpus[0].holder, nodes[0].gpus[0].utilisation) == wanted:
                return


async def test_watching_follows_jobs_samples_and_nodes(yard: FakeYard, client: AsyncClient) -> None:
    await yard.add_node()
    yard.samples[NODE] = BUSY
    async with aclosing(client.watch_nodes(every_s=0.01)) as views:
        assert [node.node for node in await anext(views)] == [NODE]
        job = await yard.start(await yard.record(a_job(a_spec(gpus=2))))
        await until(views, job.id, 0.5)
        await yard.end(job)
        yard.samples[NODE] = NodeSample(NODE, 7.0, 1, gpus=(GpuSample("GPU-a", utilisation=0.75),))
        await until(views, None, 0.75)
        await yard.add_node(Inventory("a", 1.0))
        async with asyncio.timeout(30):
            async for nodes in views:
                if [node.node for node in nodes] == ["a", NODE]:
                    break


async def test_watching_reads_anew_what_the_server_lost(yard: FakeYard, client: AsyncClient) -> None:
    assert isinstance(yard.bus, MemoryBus)
    await yard.add_node()
    yard.samples[NODE] = BUSY
    await yard.start(await yard.record(a_job(a_spec(gpus=2))))
    async with aclosing(client.watch_nodes(every_s=0.01)) as views:
        assert (await anext(views))[0].gpus[0].holder
        for stream in (STATE_STREAM, NODES_STREAM):
            yard.bus._logs[stream.name].trim("", None)
            yard.bus._logs[stream.name].last_seq = 0
        yard.bus.wake()
        async with asyncio.timeout(30):
            while await anext(views):
                pass
        await yard.add_node()
        other = await yard.start(await yard.record(a_job(a_spec("other", gpus=2), request_id="r2")))
        await until(views, other.id, 0.5)


async def test_watching_ends_with_the_record_that_broke_it(yard: FakeYard, client: AsyncClient) -> None:
    await yard.add_node(speaks=True)
    async with asyncio.timeout(30), aclosing(client.watch_nodes(every_s=0.01)) as views:
        await anext(views)
        await yard.bus.append(JOB(job="broken"), b"\xc1")
        with pytest.raises(Fault, match="broken"):
            [nodes async for nodes in views]


async def test_looking_leaves_no_task_behind(yard: FakeYard, client: AsyncClient) -> None:
    await yard.add_node(speaks=True)
    before = asyncio.all_tasks()
    await client.nodes(sample_wait_s=0)
    async with aclosing(client.watch_nodes(every_s=0.01)) as views:
        await anext(views)
    assert asyncio.all_tasks() == before
