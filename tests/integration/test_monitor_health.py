"""A monitor process over the stand-in for the driver, against a real nats-server."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpuyard.bus.nats_bus import connect
from gpuyard.bus.port import Bus, From
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.figures import Figures, PairFigure
from gpuyard.contracts.hardware import Basis, Health, Inventory
from gpuyard.contracts.history import History, HistoryQuery
from gpuyard.contracts.node_event import NodeEvent
from gpuyard.contracts.subjects import (
    FIGURES,
    HISTORY_QUERY,
    INVENTORY,
    NODE_EVENT,
    NODE_EVENTS_STREAM,
    NODES_STREAM,
    STREAMS,
)
from gpuyard.topology import captures
from tests.natsd import NatsServer
from tests.unit.monitor import fake_nvml
from tests.unit.monitor.fake_nvml import FakeDriver, uuid

LIMIT_S = 60.0
PROMISED_S = 10.0


@pytest.fixture
def box(tmp_path: Path) -> FakeDriver:
    if fake_nvml.compiler() is None:
        pytest.skip("needs a C compiler")
    return FakeDriver.of(captures.load("dgx-h100-8gpu-10hca"), tmp_path)


@asynccontextmanager
async def monitor(box: FakeDriver, server: NatsServer) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "gpuyard_monitor", "--nodes", '[{"id": "box-1", "labels": {"rack": "r4"}}]'),
        env=os.environ | box.environment() | {"GPUYARD_BUS__URL": server.url},
    )
    try:
        yield process
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), LIMIT_S) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def inventory_when(bus: Bus, is_so: Callable[[Inventory], bool]) -> Inventory:
    """The first inventory that is so."""
    subject = INVENTORY(node="box-1")
    async with (
        asyncio.timeout(LIMIT_S),
        bus.read(NODES_STREAM, subject, start=From.LAST_PER_SUBJECT) as reader,
    ):
        async for message in reader:
            if is_so(inventory := decode(message.payload, Inventory)):
                return inventory
    raise AssertionError("the reader ended")


def is_only(index: int, health: Health) -> Callable[[Inventory], bool]:
    return lambda inventory: (
        [gpu.health for gpu in inventory.gpus] == [health if at == index else Health.OK for at in range(8)]
    )


def all_well(inventory: Inventory) -> bool:
    return [gpu.health for gpu in inventory.gpus] == [Health.OK] * 8


async def events(bus: Bus) -> list[tuple[str, str | None]]:
    async with bus.read(NODE_EVENTS_STREAM, NODE_EVENT(node="box-1"), start=From.FIRST) as reader:
        read = [decode((await anext(aiter(reader))).payload, NodeEvent) for _ in range(reader.backlog)]
    return [(event.kind, event.gpu) for event in read]


async def test_a_lost_gpu_is_out_for_good_and_its_neighbours_work_on(tmp_path: Path, box: FakeDriver) -> None:
    with NatsServer(tmp_path / "nats") as server:
        async with connect(server.url, "test") as bus:
            await bus.ensure(STREAMS)
            async with monitor(box, server) as process:
                assert (await inventory_when(bus, all_well)).labels == {"rack": "r4"}
                box.gpus[3].lost, started_s = 1, time.monotonic()
                out = await inventory_when(bus, is_only(3, Health.OUT))
                assert time.monotonic() - started_s < PROMISED_S
                process.kill()
                await process.wait()
            async with monitor(box, server):
                answer = await asked(bus)
                assert [gpu.uuid for gpu in answer.gpus] == [uuid(at) for at in range(8) if at != 3]
                again = await inventory_when(bus, is_only(3, Health.OUT))
                assert (again.gpus, again.links) == (out.gpus, out.links)
                assert await events(bus) == [("gpu_lost", uuid(3))]


async def test_a_driver_that_hangs_does_not_keep_the_monitor_from_ending(
    tmp_path: Path, box: FakeDriver
) -> None:
    with NatsServer(tmp_path / "nats") as server:
        async with connect(server.url, "test") as bus:
            await bus.ensure(STREAMS)
            async with monitor(box, server) as process:
                await inventory_when(bus, all_well)
                hung = box.asked("nvmlDeviceGetPowerUsage")
                box.slow_function, box.slow_ms = b"nvmlDeviceGetPowerUsage", 3_600_000
                async with asyncio.timeout(LIMIT_S):
                    while box.asked("nvmlDeviceGetPowerUsage") == hung:
                        await asyncio.sleep(0.01)
                    process.send_signal(signal.SIGTERM)
                    assert await process.wait() == 0


async def asked(bus: Bus) -> History:
    """The history, once somebody answers that has read something."""
    question = encode(HistoryQuery(last_s=60, step_s=1))
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                reply = await bus.request(HISTORY_QUERY(node="box-1"), question, timeout_s=1.0)
            except GpuyardError:  # nobody listens yet
                continue
            history: History = decode(reply.payload, History)
            if history.gpus:
                return history


async def test_a_stranger_is_seen_and_forgotten(tmp_path: Path, box: FakeDriver) -> None:
    with NatsServer(tmp_path / "nats") as server:
        async with connect(server.url, "test") as bus, monitor(box, server):
            await bus.ensure(STREAMS)
            await inventory_when(bus, all_well)
            with subprocess.Popen(("sleep", "600"), env={"PATH": os.environ["PATH"]}) as stranger:
                box.gpus[5].run(stranger.pid)
                started_s = time.monotonic()
                foreign = await inventory_when(bus, is_only(5, Health.FOREIGN))
                assert time.monotonic() - started_s < PROMISED_S
                assert f"(pid {stranger.pid})" in foreign.gpus[5].health_reason
                stranger.kill()
            box.gpus[5].stop(stranger.pid)
            await inventory_when(bus, all_well)


async def test_figures_are_taken_from_the_queue(tmp_path: Path, box: FakeDriver) -> None:
    with NatsServer(tmp_path / "nats") as server:
        async with connect(server.url, "test") as bus:
            await bus.ensure(STREAMS)
            figures = Figures("box-1", time.time(), "probe-1", (PairFigure(uuid(0), uuid(1), 371.5),))
            await bus.append(FIGURES(node="box-1"), encode(figures))
            async with monitor(box, server):
                measured = await inventory_when(bus, lambda inventory: inventory.probed_at_s is not None)
                assert (measured.links[0].gb_s, measured.links[0].basis) == (371.5, Basis.MEASURED)
