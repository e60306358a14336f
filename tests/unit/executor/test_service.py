"""The shell on the bus in memory, with ranks in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.port import From
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.fact import ExecutorInfo, GangFact, RankState
from gpuyard.contracts.job import TaskSpec
from gpuyard.contracts.log import LogBatch
from gpuyard.contracts.order import Order
from gpuyard.contracts.subjects import FACT, FACTS_STREAM, LOGS_STREAM, ORDER, ORDERS_STREAM, STREAMS
from gpuyard.runtime.clock import SystemClock
from gpuyard.runtime.health import Health
from gpuyard.runtime.service import Context
from gpuyard.telemetry.metrics import Metrics
from gpuyard_executor.core.rank import OUT, RankKey
from gpuyard_executor.journal import Journal
from gpuyard_executor.memory_engine import MemoryEngine, Script, World
from gpuyard_executor.node import Node, NodePlace
from gpuyard_executor.ports import Ports
from gpuyard_executor.service import ExecutorService
from tests.unit.executor.orders import NODE, prepare, stop

GENEROUS_S = 60.0
SCRIPTS = {"train": Script(((OUT, b"hello\n"),)), "wait": Script(code=None)}


class Rig:
    """An executor of one node that can be ended and started again."""

    def __init__(self, home: Path, bus: MemoryBus) -> None:
        self.bus = bus
        self.world: World = {}
        self.metrics = Metrics()
        self.health = Health()
        self._home = home
        home.mkdir()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[MemoryEngine]:
        await self.bus.ensure(STREAMS)
        self.health = Health()
        log = structlog.get_logger()
        context = Context("executor", self.bus, SystemClock(), self.health, self.metrics, log)
        engine = MemoryEngine(SCRIPTS, self.world)
        place = NodePlace(NODE, self._home, "10.0.0.1", 50)
        node = Node(place, context, engine, Ports(20000, 29999), {})
        service = ExecutorService(context, [node], lambda name: ExecutorInfo(name, 0.0, "memory", "10.0.0.1"))
        running = asyncio.ensure_future(service.run())
        try:
            yield engine
        finally:
            running.cancel()
            await asyncio.wait((running,))

    async def give(self, order: Order) -> None:
        await self.bus.append(ORDER(node=NODE), encode(order))

    async def fact(self, job: str, *, released: bool = True) -> GangFact:
        subject = FACT(node=NODE, job=job)
        async with (
            asyncio.timeout(GENEROUS_S),
            self.bus.read(FACTS_STREAM, subject, start=From.LAST_PER_SUBJECT) as facts,
        ):
            async for message in facts:
                fact = decode(message.payload, GangFact)
                if fact.released is released:
                    return fact
        raise AssertionError("unreachable")

    async def emptied(self) -> None:
        """Wait until every order is acknowledged."""
        async with asyncio.timeout(GENEROUS_S):
            while await self.bus.last(ORDERS_STREAM, ORDER(node=NODE)):
                await asyncio.sleep(0.001)

    def metric(self, name: str) -> float:
        lines = self.metrics.render().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "node", MemoryBus())


async def test_a_job_comes_and_goes(rig: Rig) -> None:
    async with rig.running():
        await rig.give(prepare())
        fact = await rig.fact("j1")
        await rig.emptied()
        async with asyncio.timeout(GENEROUS_S), rig.bus.read(LOGS_STREAM, ">") as logs:
            batches = [decode((await anext(logs)).payload, LogBatch) for _ in range(2)]
    assert fact.ranks[0].exit
    assert fact.ranks[0].exit.code == 0
    assert [(batch.first_seq, batch.next_seq, batch.end) for batch in batches] == [
        (0, 1, False),
        (1, 1, True),
    ]
    assert rig.metric("gpuyard_executor_orders_total") == 1
    assert rig.metric("gpuyard_executor_launch_seconds_count") == 1
    assert rig.metric("gpuyard_executor_output_bytes_total") == len(b"hello\n")


async def test_a_rank_outlives_its_executor(rig: Rig) -> None:
    async with rig.running():
        await rig.give(prepare(tasks=(TaskSpec(("wait",)),)))
        assert (await rig.fact("j1", released=False)).ranks[0].state is RankState.RUNNING
    async with rig.running() as engine:
        await rig.give(stop())
        fact = await rig.fact("j1")
        assert engine.started == {}
    assert fact.ranks[0].exit
    assert fact.ranks[0].exit.code == 143


async def test_an_order_that_can_not_be_recorded_comes_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: what can be done is done, and nothing is acknowledged."""
    write, failures = Journal.write, [OSError(28, "No space left on device")]

    def full_at_first(self: Journal, entry: Any) -> None:
        if failures:
            raise failures.pop()
        write(self, entry)

    monkeypatch.setattr(Journal, "write", full_at_first)
    monkeypatch.setattr("gpuyard_executor.node._RETRY_S", 0.0)
    async with rig.running() as engine:
        await rig.give(prepare())
        await rig.fact("j1")
        await rig.emptied()
        assert engine.started == {RankKey("j1", 1, 0): 1}


class Deaf(MemoryBus):
    """It does not hear the first facts."""

    def __init__(self) -> None:
        super().__init__()
        self.deaf = 3

    async def append(self, subject: str, *args: Any, **options: Any) -> Any:
        if self.deaf and subject.startswith("gpuyard.fact"):
            self.deaf -= 1
            raise Unavailable("no answer")
        return await super().append(subject, *args, **options)


async def test_a_bus_that_does_not_answer_is_asked_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "node", Deaf())
    async with rig.running():
        await rig.give(prepare())
        assert (await rig.fact("j1")).ranks[0].exit


async def test_orders_that_are_refused_are_counted(rig: Rig) -> None:
    async with rig.running():
        await rig.give(prepare(term=5))
        await rig.give(stop(term=4))
        await rig.fact("j1")
        await rig.emptied()
    assert rig.metric("gpuyard_executor_refused_orders_total") == 1
