import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from structlog.testing import capture_logs

from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import InvalidSpec, NotFound
from gpuyard.contracts.fact import GangFact, RankFact, RankState
from gpuyard.contracts.ids import is_id
from gpuyard.contracts.subjects import FACT, FACTS_STREAM, REJECTED, REJECTS_STREAM
from gpuyard.runtime.config import load
from gpuyard_monitor.config import MonitorConfig, NodeConfig
from gpuyard_monitor.main import build
from gpuyard_monitor.service import Monitor, this_machine
from tests.unit.monitor.world import Samples, World, running

SIMULATED = MonitorConfig(nodes=(NodeConfig("n1", "6gpu-4plus2"),))


@pytest.fixture
def world() -> World:
    return World()


@asynccontextmanager
async def monitoring(world: World, config: MonitorConfig = SIMULATED) -> AsyncIterator[Samples]:
    """A monitor that is ready; samples of the first node."""
    async with world.listening(config.nodes[0].id) as samples, running(Monitor(config, world.context).run()):
        await anext(samples)
        await world.until(lambda: world.health.is_ready)
        yield samples


async def tell_fact(world: World, job: str, state: RankState, *gpus: str) -> None:
    fact = GangFact("n1", job, 1, 1, world.clock.now(), (RankFact(0, state, gpus),))
    await world.bus.append(FACT(node="n1", job=job), encode(fact))


async def busy_after(samples: Samples, count: int) -> list[str]:
    """GPUs that work once exactly so many do."""
    async with asyncio.timeout(60):
        while True:
            sample = await samples.after(1.0)
            busy = [gpu.uuid for gpu in sample.gpus if (gpu.utilisation or 0) > 0.5]
            if len(busy) == count:
                return busy


async def test_a_simulated_node_appears_with_its_hardware(world: World) -> None:
    async with monitoring(world):
        inventory, _ = await world.inventory("n1")
        assert inventory.simulated
        assert len(inventory.gpus) == 6
        assert inventory.links[0].label == "PIX"
        assert world.health.report() == {"ready": True, "why": "", "nodes": ["n1"]}


async def test_gpus_that_ranks_hold_are_busy(world: World) -> None:
    async with monitoring(world) as samples:
        uuids = [gpu.uuid for gpu in (await world.inventory("n1"))[0].gpus]
        await tell_fact(world, "a", RankState.RUNNING, uuids[1], uuids[4])
        assert await busy_after(samples, 2) == [uuids[1], uuids[4]]
        await tell_fact(world, "b", RankState.PREPARING, uuids[0])
        await tell_fact(world, "a", RankState.EXITED, uuids[1], uuids[4])
        assert await busy_after(samples, 1) == [uuids[0]]


async def test_facts_from_before_the_start_count(world: World) -> None:
    uuid = (await _uuids(world))[3]
    await world.bus.ensure((FACTS_STREAM,))
    await tell_fact(world, "a", RankState.RUNNING, uuid)
    async with monitoring(world) as samples:
        assert await busy_after(samples, 1) == [uuid]


async def _uuids(world: World) -> list[str]:
    async with monitoring(World()) as samples:
        return [gpu.uuid for gpu in (await samples.after()).gpus]


async def test_a_fact_that_nobody_can_read_is_set_aside(world: World) -> None:
    await world.bus.ensure((FACTS_STREAM, REJECTS_STREAM))
    await world.bus.append(FACT(node="n1", job="bad"), b"\xc1 no fact")
    async with monitoring(world) as samples:
        uuid = (await samples.after()).gpus[0].uuid
        await tell_fact(world, "a", RankState.RUNNING, uuid)
        assert await busy_after(samples, 1) == [uuid]
    assert world.metric('gpuyard_rejected_total{subject="gpuyard.fact"}') == 1
    assert await world.bus.last(REJECTS_STREAM, REJECTED(stream="fact"))


async def test_facts_are_read_anew_when_the_server_lost_data(world: World) -> None:
    with capture_logs() as logs:
        async with monitoring(world) as samples:
            uuids = [gpu.uuid for gpu in (await samples.after()).gpus]
            for lost in range(3):
                world.bus.lost.set()
                await world.until(lambda: not world.bus.lost.is_set())
                await tell_fact(world, f"job-{lost}", RankState.RUNNING, uuids[lost])
                assert await busy_after(samples, lost + 1) == uuids[: lost + 1]
    warnings = [entry for entry in logs if entry["event"] == "facts can't be read"]
    assert [entry["error"] for entry in warnings] == ["the server lost data"] * 3


async def test_several_nodes_and_this_machine_in_one_process(world: World) -> None:
    config = MonitorConfig(
        nodes=(
            NodeConfig("n1", "dgx-h100-8gpu-10hca"),
            NodeConfig("n2", "dgx-h100-8gpu-10hca"),
            NodeConfig("real"),
        )
    )
    async with monitoring(world, config):
        one, two = (await world.inventory("n1"))[0], (await world.inventory("n2"))[0]
        assert not {gpu.uuid for gpu in one.gpus} & {gpu.uuid for gpu in two.gpus}
        real, _ = await world.inventory("real")
        assert not real.simulated
        assert real.host.cpus


async def test_not_ready_while_one_node_is_unheard(world: World) -> None:
    async with monitoring(world):
        world.bus.down = True
        world.clock.advance(1.0)
        await world.until(lambda: not world.health.is_ready)
        assert world.health.why == "the bus can't be reached"
        world.bus.down = False
        world.clock.advance(1.0)
        await world.until(lambda: world.health.is_ready)


async def test_unknown_captures_are_refused_at_the_start(world: World) -> None:
    with pytest.raises(NotFound, match="6gpu"):
        build(MonitorConfig(nodes=(NodeConfig("n1", "6gpu"),)), world.context)


async def test_without_nodes_it_speaks_for_this_machine(world: World) -> None:
    assert isinstance(build(MonitorConfig(), world.context), Monitor)
    (node,) = this_machine()
    assert is_id(node.id)
    assert node.capture == ""
    assert world.health.notes["nodes"] == [node.id]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"nodes": [{"id": "a", "capture": "x"}, {"id": "a", "capture": "y"}]}, "same id"),
        ({"nodes": [{"id": "a"}, {"id": "b"}]}, "one node only"),
        ({"nodes": [{"id": "a/b"}]}, "lower-case letters"),
        ({"nodes": [{"id": "a", "captur": "x"}]}, "captur"),
        ({"sample_every_s": 0}, "at least 0.1"),
        ({"ignored_rules": ["nvlinks"]}, "`nvlinks` is no health rule; did you mean `nvlink`?"),
        ({"ignored_rules": ["lost"]}, "`lost` can't be switched off"),
    ],
)
def test_bad_settings_are_refused(table: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidSpec, match=says):
        load(MonitorConfig, "monitor", table=table)


def test_nodes_can_be_given_in_the_environment() -> None:
    nodes = msgspec.json.encode([{"id": "a", "capture": "6gpu-4plus2"}]).decode()
    config = load(MonitorConfig, "monitor", environment={"GPUYARD_MONITOR__NODES": nodes})
    assert config.nodes == (NodeConfig("a", "6gpu-4plus2"),)
