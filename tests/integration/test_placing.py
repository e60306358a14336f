"""Where gangs land on real services, and what users are told about it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from msgspec import structs

from gpuyard import AsyncClient, Job, JobSpec, JobState, TaskSpec
from gpuyard.bus.nats_bus import connect
from gpuyard.bus.port import Bus
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Refused
from gpuyard.contracts.hardware import Health, Inventory
from gpuyard.contracts.subjects import INVENTORY, NODES_STREAM
from tests.realyard import GENEROUS_S, RealYard, real_yard

pytestmark = pytest.mark.timeout(300)
MESH, SLOW = "n0", "n1"


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealYard]:
    """A cube mesh and a box without NVLink."""
    captures = ("v100-8gpu-cubemesh-1hca", "rtx4090-8gpu-all-sys")
    with real_yard(tmp_path_factory.mktemp("placing") / "yard", *captures) as running:
        yield running


@pytest.fixture
async def client(yard: RealYard) -> AsyncIterator[AsyncClient]:
    """For each test an idle yard."""
    async with yard.client(timeout_s=30) as connected:
        while len(await connected.nodes(sample_wait_s=0)) < 2 or await connected.list(active_only=True):
            await asyncio.sleep(0.02)
        yield connected


def spec(gpus: int, *nodes: str, command: str = "true") -> JobSpec:
    return JobSpec((TaskSpec(("sh", "-c", command), gpus=gpus),), nodes=nodes, grace_s=1.0)


async def gpus_of(client: AsyncClient, job: Job) -> set[int]:
    assert job.placement
    nodes = await client.nodes(sample_wait_s=0)
    index = {gpu.uuid: gpu.index for node in nodes for gpu in node.gpus}
    return {index[gpu] for slot in job.placement.slots for gpu in slot.gpus}


async def shown(yard: RealYard, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gpuyard", *arguments, "--dir", str(yard.root), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_four_gpus_are_a_quad_and_show_says_why(yard: RealYard, client: AsyncClient) -> None:
    job = await client.wait(await client.submit(spec(4)), timeout_s=GENEROUS_S)
    assert job.state is JobState.SUCCEEDED
    assert await gpus_of(client, job) in ({0, 1, 2, 3}, {4, 5, 6, 7})
    told: dict[str, Any] = json.loads(await shown(yard, "show", job.id, "--json"))["placement"]
    assert {slot["node"] for slot in told["slots"]} == {MESH}
    assert len(told["links"]) == 6
    assert told["bottleneck_gb_s"] == min(link["gb_s"] for link in told["links"])
    assert told["sum_gb_s"] == pytest.approx(sum(link["gb_s"] for link in told["links"]), abs=0.1)
    (elsewhere,) = [other for other in told["rejected"] if other["node"] == SLOW]
    assert len(elsewhere["gpus"]) == 4
    assert elsewhere["bottleneck_gb_s"] < told["bottleneck_gb_s"]
    assert "instead of" in elsewhere["why"]
    text = await shown(yard, "show", job.id)
    assert "at the slowest link of the best ring" in text
    assert f"node {SLOW}: GPU 0, 1, 2, 3: " in text


async def test_one_gpu_parts_no_pair(client: AsyncClient) -> None:
    job = await client.wait(await client.submit(spec(1)), timeout_s=GENEROUS_S)
    assert job.placement
    assert job.placement.nodes == (SLOW,)


async def test_a_job_runs_where_it_is_bound_to(client: AsyncClient) -> None:
    job = await client.wait(await client.submit(spec(2, SLOW)), timeout_s=GENEROUS_S)
    assert job.placement
    assert job.placement.nodes == (SLOW,)
    with pytest.raises(Refused, match="n2") as caught:
        await client.submit(spec(2, "n2"))
    assert "gpuyard nodes" in caught.value.hint
    with pytest.raises(Refused, match="n1 together can give it 8"):
        await client.submit(spec(9, SLOW))


async def test_a_foreign_gpu_is_given_to_nobody_until_it_is_free(yard: RealYard, client: AsyncClient) -> None:
    blocker = await client.submit(spec(1, SLOW, command="sleep 600"))
    async with connect(yard.file.url, "test") as bus:
        known = await inventory_of(bus, SLOW)
        foreign = structs.replace(known.gpus[7], health=Health.FOREIGN, health_reason="python of ann")
        await bus.append(
            INVENTORY(node=SLOW), encode(structs.replace(known, gpus=(*known.gpus[:7], foreign)))
        )
        waiting = await client.submit(spec(8, SLOW))
        assert "n1 GPU 7 (python of ann)" in await message_of(client, waiting, "waiting_for_health")
        await client.cancel(blocker, wait=True)
        passing = await client.wait(await client.submit(spec(7, SLOW)), timeout_s=GENEROUS_S)
        assert passing.state is JobState.SUCCEEDED
        assert (await client.get(waiting.id)).state is JobState.QUEUED
        await bus.append(INVENTORY(node=SLOW), encode(known))
    assert (await client.wait(waiting, timeout_s=GENEROUS_S)).state is JobState.SUCCEEDED


async def message_of(client: AsyncClient, job: Job, reason: str) -> str:
    """Wait until the job waits for this reason."""
    async for now in client.watch(job):
        if now.reason and now.reason.code == reason:
            return now.reason.message
    raise AssertionError(f"it never was {reason}")


async def inventory_of(bus: Bus, node: str) -> Inventory:
    message = await bus.last(NODES_STREAM, INVENTORY(node=node))
    assert message
    return decode(message.payload, Inventory)
