"""The monitor as a process of its own, against a real nats-server."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpuyard.bus.nats_bus import connect
from gpuyard.bus.port import Bus, From
from gpuyard.contracts.codec import decode
from gpuyard.contracts.hardware import Inventory, NodeSample
from gpuyard.contracts.subjects import INVENTORY, NODES_STREAM, SAMPLE, STREAMS
from tests.natsd import NatsServer, free_port

LIMIT_S = 60.0


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "gpuyard.toml"
    path.write_text(
        "[monitor]\nsample_every_s = 0.2\n"
        '[[monitor.nodes]]\nid = "sim-1"\ncapture = "6gpu-4plus2"\n'
        '[[monitor.nodes]]\nid = "real"\n'
    )
    return path


@asynccontextmanager
async def monitor(config: Path, server: NatsServer) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running monitor; it must end in an orderly way unless the test has killed it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gpuyard_monitor", "--config", str(config), env={"GPUYARD_BUS__URL": server.url}
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


async def next_inventory(bus: Bus, node: str) -> Inventory:
    async with (
        asyncio.timeout(LIMIT_S),
        bus.read(NODES_STREAM, INVENTORY(node=node), start=From.LAST_PER_SUBJECT) as reader,
    ):
        return decode((await anext(aiter(reader))).payload, Inventory)


async def next_sample(bus: Bus, node: str, after: int = -1) -> NodeSample:
    async with asyncio.timeout(LIMIT_S), bus.subscribe(SAMPLE(node=node)) as messages:
        async for message in messages:
            if (sample := decode(message.payload, NodeSample)).seq > after:
                return sample
    raise AssertionError("the subscription ended")


async def test_it_tells_and_goes_on_after_the_server_was_killed(tmp_path: Path, config: Path) -> None:
    with NatsServer(tmp_path / "nats") as server:
        async with connect(server.url, "test") as bus, monitor(config, server):
            await bus.ensure(STREAMS)
            simulated, real = await next_inventory(bus, "sim-1"), await next_inventory(bus, "real")
            assert len(simulated.gpus) == 6
            assert real.host.cpus
            seq = (await next_sample(bus, "sim-1")).seq
            server.kill()
            server.start()
            assert (await next_sample(bus, "sim-1", seq)).seq > seq
            assert (await next_sample(bus, "real")).memory_used_bytes


async def test_a_monitor_that_was_killed_starts_again(tmp_path: Path, config: Path) -> None:
    with NatsServer(tmp_path / "nats") as server:
        async with connect(server.url, "test") as bus:
            await bus.ensure(STREAMS)
            async with monitor(config, server) as process:
                before = await next_inventory(bus, "sim-1")
                process.kill()
                await process.wait()
            async with monitor(config, server):
                await next_sample(bus, "sim-1")
                assert (await next_inventory(bus, "sim-1")).gpus == before.gpus


async def test_an_unknown_capture_ends_it_with_the_nearest_name(tmp_path: Path) -> None:
    config = tmp_path / "gpuyard.toml"
    config.write_text(f"[monitor]\nhealth_port = {free_port()}\n")
    with NatsServer(tmp_path / "nats") as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "gpuyard_monitor", "--config", str(config)),
            *("--nodes", '[{"id": "n1", "capture": "6gpu-4plus"}]'),
            env={"GPUYARD_BUS__URL": server.url},
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await asyncio.wait_for(process.communicate(), LIMIT_S)
    assert process.returncode == 3
    assert b"Did you mean `6gpu-4plus2`?" in said
