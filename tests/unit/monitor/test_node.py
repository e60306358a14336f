import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import combinations

import pytest
from structlog.testing import capture_logs

from gpuyard.bus.port import From
from gpuyard.contracts.codec import decode
from gpuyard.contracts.hardware import Gpu, Health, Host, Link
from gpuyard.contracts.node_event import NodeEvent
from gpuyard.contracts.subjects import INVENTORY, NODE_EVENT, NODE_EVENTS_STREAM, NODES_STREAM
from gpuyard_monitor.core.look import Hardware, Look, Trouble
from gpuyard_monitor.core.readings import Found, Reading, Xid
from gpuyard_monitor.core.watch import Watch
from gpuyard_monitor.held import HeldGpus
from gpuyard_monitor.node import Node, Source
from tests.unit.monitor.world import Samples, World, running


class Scripted:
    """A source that says what the test wants."""

    def __init__(self, *uuids: str) -> None:
        self.found = 0
        self.uuids = self.answering = uuids
        self.utilisation: float | None = 0.5
        self.boot_id = "boot-1"
        self.xids: tuple[Xid, ...] = ()
        self.trouble: Trouble | None = None

    async def hardware(self) -> Hardware:
        self.found += 1
        gpus = tuple(Gpu(uuid, index) for index, uuid in enumerate(self.uuids))
        links = tuple(Link(a, b) for a, b in combinations(range(len(gpus)), 2))
        host = Host(boot_id=self.boot_id, driver="580.1")
        return Hardware(host, Found(gpus, links, count=len(gpus)), source="script")

    async def look(self, now_s: float, *, paced: bool) -> Look:
        xids, self.xids = self.xids, ()
        return Look(
            tuple(Reading(uuid, utilisation=self.utilisation) for uuid in self.answering),
            xids,
            paced=paced,
            trouble=self.trouble,
        )


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def source() -> Scripted:
    return Scripted("g0", "g1")


def node_of(world: World, source: Source) -> Node:
    return Node(
        "n1",
        Watch("n1", {"rack": "r1"}, ()),
        source,
        HeldGpus(world.context, "n1"),
        world.context,
        sample_every_s=1.0,
        inventory_every_s=60.0,
        on_change=lambda: None,
    )


@asynccontextmanager
async def speaking(world: World, source: Scripted) -> AsyncIterator[tuple[Node, Samples]]:
    """A node that has told its first sample and inventory."""
    node = node_of(world, source)
    async with world.listening("n1") as samples, running(node.run()):
        assert (await anext(samples)).seq == 0
        await world.until(lambda: not node.unheard)
        yield node, samples


async def test_a_sample_each_second_and_the_inventory_once(world: World, source: Scripted) -> None:
    started_s = world.clock.now()
    async with speaking(world, source) as (_, samples):
        seen = [await samples.after(1.0) for _ in range(3)]
        assert [(sample.seq, sample.at_s - started_s) for sample in seen] == [(1, 1), (2, 2), (3, 3)]
        inventory, seq = await world.inventory("n1")
        assert (inventory.at_s, len(inventory.gpus), seq) == (started_s, 2, 1)
    assert source.found == 1


async def test_late_samples_are_left_out(world: World, source: Scripted) -> None:
    async with speaking(world, source) as (_, samples):
        late = await samples.after(10.0)
        assert (late.seq, late.at_s) == (1, world.clock.now())
        on_time = await samples.after(1.0)
        assert (on_time.seq, on_time.at_s) == (2, world.clock.now())


async def test_an_unchanged_inventory_is_not_written_again(world: World, source: Scripted) -> None:
    async with speaking(world, source) as (_, samples):
        await samples.after(61.0)
        await samples.after(1.0)
        assert source.found == 2
        assert (await world.inventory("n1"))[1] == 1


async def test_a_changed_inventory_is_written(world: World, source: Scripted) -> None:
    async with speaking(world, source) as (_, samples):
        source.uuids = ("g0", "g1", "g2")
        await samples.after(61.0)
        await samples.after(1.0)
        inventory, seq = await world.inventory("n1")
        assert ([gpu.uuid for gpu in inventory.gpus], seq) == (["g0", "g1", "g2"], 2)


async def test_a_gpu_that_stops_answering_is_out_at_once_and_keeps_its_place(
    world: World, source: Scripted
) -> None:
    async with speaking(world, source) as (_, samples):
        source.uuids = source.answering = ("g1",)
        assert [gpu.uuid for gpu in (await samples.after(1.0)).gpus] == ["g1"]
        await samples.after(1.0)
        lost, well = (await world.inventory("n1"))[0].gpus
        assert (lost.uuid, lost.health) == ("g0", Health.OUT)
        assert lost.health_reason.startswith("fell off the bus; reset the GPU with the monitor stopped")
        assert (well.uuid, well.health) == ("g1", Health.OK)
        await samples.after(60.0)
        await samples.after(1.0)
        assert [gpu.index for gpu in (await world.inventory("n1"))[0].gpus] == [0, 1]
        assert source.found == 2


@pytest.mark.parametrize("broken", [False, True], ids=["gone", "garbled"])
async def test_an_inventory_that_the_bus_lost_is_written_again(
    world: World, source: Scripted, broken: bool
) -> None:
    async with speaking(world, source) as (_, samples):
        await world.bus.trim(NODES_STREAM, subject=INVENTORY(node="n1"))
        if broken:
            await world.bus.append(INVENTORY(node="n1"), b"\xc1")
        await samples.after(61.0)
        await samples.after(1.0)
        inventory, seq = await world.inventory("n1")
        assert (len(inventory.gpus), seq) == (2, 3 if broken else 2)


async def test_a_bus_that_is_away_is_counted_and_said_once(world: World, source: Scripted) -> None:
    failures = 'gpuyard_monitor_unheard_total{node="n1"}'
    with capture_logs() as logs:
        async with speaking(world, source) as (node, samples):
            world.bus.down = True
            for count in range(1, 4):
                source.utilisation = count / 10
                world.clock.advance(1.0)
                await world.until(lambda: world.metric(failures) == count)  # noqa: B023 - awaited here
                assert world.metric('gpuyard_gpu_utilisation{gpu="g0",node="n1"}') == count / 10
                assert node.unheard == "the bus can't be reached"
            world.bus.down = False
            assert (await samples.after(1.0)).seq == 4
            await world.until(lambda: not node.unheard)
    events = [entry["event"] for entry in logs if entry["event"] != "inventory written"]
    assert events == ["the bus does not listen", "the bus listens again"]


async def test_without_a_bus_at_the_start_the_inventory_comes_later(world: World, source: Scripted) -> None:
    world.bus.down = True
    node = node_of(world, source)
    async with running(node.run()):
        await world.until(lambda: node.unheard == "the bus can't be reached")
        world.bus.down = False
        world.clock.advance(1.0)
        await world.until(lambda: not node.unheard)
        assert len((await world.inventory("n1"))[0].gpus) == 2


async def test_a_bus_that_stalls_does_not_delay_measuring(world: World, source: Scripted) -> None:
    async with speaking(world, source):
        world.bus.open.clear()
        source.uuids = source.answering = ("g0",)
        for count in range(1, 5):
            source.utilisation = count / 10
            world.clock.advance(1.0)
            shown = 'gpuyard_gpu_utilisation{gpu="g0",node="n1"}'
            await world.until(lambda: world.metric(shown) == count / 10)  # noqa: B023 - awaited here
        world.bus.open.set()


async def test_gauges_show_unknown_as_nan_and_drop_gpus_that_are_gone(world: World, source: Scripted) -> None:
    async with speaking(world, source) as (_, samples):
        assert world.metric('gpuyard_node_gpus{node="n1"}') == 2
        source.utilisation, source.answering = None, ("g1",)
        await samples.after(1.0)
        assert math.isnan(world.metric('gpuyard_gpu_utilisation{gpu="g1",node="n1"}'))
        assert math.isnan(world.metric('gpuyard_node_cpu{node="n1"}'))
        assert world.metric('gpuyard_node_gpus{node="n1"}') == 1
        assert b'gpuyard_gpu_utilisation{gpu="g0"' not in world.metrics.render()


async def test_a_bug_in_a_source_is_not_hidden(world: World) -> None:
    class Broken(Scripted):
        async def look(self, now_s: float, *, paced: bool) -> Look:
            raise ZeroDivisionError

    node = node_of(world, Broken())
    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(node.run(), 60)
    assert caught.group_contains(ZeroDivisionError)


async def test_gauges_tell_who_is_in_service(world: World, source: Scripted) -> None:
    async with speaking(world, source) as (_, samples):
        assert world.metric('gpuyard_gpu_in_service{gpu="g0",node="n1"}') == 1
        source.answering = ("g1",)
        await samples.after(1.0)
        await samples.after(1.0)
        assert world.metric('gpuyard_gpu_in_service{gpu="g0",node="n1"}') == 0
        assert world.metric('gpuyard_gpu_in_service{gpu="g1",node="n1"}') == 1


async def told(world: World) -> list[NodeEvent]:
    async with world.bus.read(NODE_EVENTS_STREAM, NODE_EVENT(node="n1"), start=From.FIRST) as reader:
        return [decode((await anext(aiter(reader))).payload, NodeEvent) for _ in range(reader.backlog)]


async def test_events_of_an_outage_follow_it_in_order(world: World, source: Scripted) -> None:
    async with speaking(world, source) as (node, samples):
        world.bus.down = True
        for number in (31, 79):
            source.xids = (Xid("g0", number),)
            world.clock.advance(1.0)
            await world.until(lambda: not source.xids)
        source.answering = ("g0",)
        world.clock.advance(1.0)
        await world.until(lambda: world.metric('gpuyard_node_gpus{node="n1"}') == 1)
        world.bus.down = False
        await samples.after(1.0)
        await world.until(lambda: not node.unheard)
        events = await told(world)
        assert [event.kind for event in events] == ["xid", "xid", "gpu_out", "gpu_lost"]
        assert world.metric('gpuyard_monitor_events_total{kind="xid",node="n1"}') == 2


async def test_a_flood_of_events_keeps_the_newest_and_is_counted(world: World, source: Scripted) -> None:
    async with speaking(world, source) as (node, samples):
        world.bus.down = True
        source.xids = tuple(Xid("g0", 1000 + number) for number in range(1200))
        world.clock.advance(1.0)
        await world.until(lambda: node.unheard)
        assert world.metric('gpuyard_monitor_events_dropped_total{node="n1"}') == 200
        world.bus.down = False
        await samples.after(1.0)
        await world.until(lambda: not node.unheard)
        events = await told(world)
        assert [event.message.split(":")[0] for event in events] == [
            f"Xid {1000 + number}" for number in range(200, 1200)
        ]


async def test_an_event_that_was_written_without_an_answer_is_not_written_again(
    world: World, source: Scripted
) -> None:
    async with speaking(world, source) as (node, samples):
        world.bus.deaf = 1
        source.xids = (Xid("g0", 31),)
        await samples.after(1.0)
        await world.until(lambda: node.unheard)
        await samples.after(1.0)
        await world.until(lambda: not node.unheard)
        assert [event.kind for event in await told(world)] == ["xid"]


async def test_labels_are_told(world: World, source: Scripted) -> None:
    async with speaking(world, source):
        assert (await world.inventory("n1"))[0].labels == {"rack": "r1"}


async def test_nothing_is_told_before_the_last_inventory_is_known(world: World, source: Scripted) -> None:
    async with speaking(world, source) as (_, samples):
        source.xids = (Xid("g0", 79),)
        await samples.after(1.0)
        await samples.after(1.0)
    world.bus.down = True
    node = node_of(world, source)
    async with running(node.run()):
        await world.until(lambda: node.unheard == "the bus can't be reached")
        assert not node.is_recalled.is_set()
        world.bus.down = False
        world.clock.advance(1.0)
        await world.until(lambda: not node.unheard)
        assert [gpu.health for gpu in (await world.inventory("n1"))[0].gpus] == [Health.OUT, Health.OK]


async def test_a_last_inventory_that_nobody_can_read_is_none(world: World, source: Scripted) -> None:
    await world.bus.ensure((NODES_STREAM,))
    await world.bus.append(INVENTORY(node="n1"), b"\xc1")
    async with speaking(world, source):
        assert len((await world.inventory("n1"))[0].gpus) == 2


async def test_a_change_is_told_once_though_the_monitor_was_killed_before_it_was_remembered(
    world: World, source: Scripted
) -> None:
    async with speaking(world, source) as (node, samples):
        await samples.after(61.0)  # the hardware is looked at anew, and nothing has changed
        world.bus.refused = INVENTORY(node="n1")
        source.answering = ("g1",)
        await samples.after(1.0)
        await world.until(lambda: node.unheard)
        assert [event.kind for event in await told(world)] == ["gpu_lost"]
    world.bus.refused = ""
    world.clock.advance(30.0)
    async with speaking(world, source) as (_, samples):
        assert (await world.inventory("n1"))[0].gpus[0].health is Health.OUT
        assert [event.kind for event in await told(world)] == ["gpu_lost"]
        source.answering = ("g0", "g1")
        for _ in range(62):
            await samples.after(1.0)
        source.answering = ("g1",)
        await samples.after(1.0)
        await samples.after(1.0)
        assert [event.kind for event in await told(world)] == ["gpu_lost", "gpu_back", "gpu_ok", "gpu_lost"]
