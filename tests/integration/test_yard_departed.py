"""Nodes that left a yard for good."""

import asyncio
from pathlib import Path

import msgspec

from gpuyard import AsyncClient
from gpuyard.bus.nats_bus import connect
from gpuyard.contracts.codec import encode
from gpuyard.contracts.fact import ExecutorInfo, GangFact
from gpuyard.contracts.subjects import EXECUTOR, FACT, FACTS_STREAM, INVENTORY, NODES_STREAM
from gpuyard.yard import stop
from gpuyard.yard.layout import Layout
from gpuyard.yard.nodes import Node
from gpuyard.yard.prune import prune
from tests.natsd import NatsServer
from tests.realyard import real_yard
from tests.yards import StandInYard

CAPTURE = "v100-8gpu-cubemesh-1hca"


async def test_only_nodes_that_hold_nothing_are_forgotten(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with connect(server.url, "test") as bus:
            await bus.ensure((NODES_STREAM, FACTS_STREAM))
            for node in ("here", "gone", "released", "holding", "odd"):
                await bus.append(INVENTORY(node=node), b"any")
                await bus.append(EXECUTOR(node=node), encode(ExecutorInfo(node, 1.0, "process", "::1")))
            for node in ("released", "holding"):
                fact = GangFact(node, "j1", 1, 1, 1.0, released=node == "released")
                await bus.append(FACT(node=node, job="j1"), encode(fact))
            await bus.append(FACT(node="odd", job="j1"), b"nobody can read this")

            assert await prune(bus, {"here", "new"}) == {"here", "new", "holding", "odd"}
            for channel in (INVENTORY, EXECUTOR):
                left = [
                    node
                    for node in ("here", "gone", "released", "holding", "odd")
                    if await bus.last(NODES_STREAM, channel(node=node))
                ]
                assert left == ["here", "holding", "odd"]


async def test_a_yard_started_with_other_nodes_forgets_the_old_ones(tmp_path: Path) -> None:
    with real_yard(tmp_path / "yard", CAPTURE, CAPTURE) as yard:
        await stop.stop(yard.root)
        yard.options = msgspec.structs.replace(yard.options, nodes=(Node("n1", CAPTURE), Node("n9", CAPTURE)))
        await asyncio.to_thread(yard.up)
        async with AsyncClient(dir=yard.root) as client:
            assert {node.node for node in await client.nodes()} == {"n1", "n9"}
        async with connect(yard.file.url, "test") as bus:
            assert await bus.last(NODES_STREAM, EXECUTOR(node="n0")) is None
            assert await bus.last(NODES_STREAM, EXECUTOR(node="n9"))


async def test_a_node_that_could_not_go_is_looked_at_again(tmp_path: Path) -> None:
    yard = StandInYard(tmp_path)
    known = Layout(yard.root).nodes
    fact = GangFact("old", "j1", 1, 1, 1.0)
    try:
        yard.up(nodes=(Node("old"),))
        async with connect(yard.file.url, "test") as bus:
            await bus.ensure((NODES_STREAM, FACTS_STREAM))
            await bus.append(INVENTORY(node="old"), b"any")
            await bus.append(FACT(node="old", job="j1"), encode(fact))
        await yard.down()
        yard.up(nodes=(Node("new"),))
        assert msgspec.json.decode(known.read_bytes()) == ["new", "old"]
        async with connect(yard.file.url, "test") as bus:
            done = encode(msgspec.structs.replace(fact, released=True))
            await bus.append(FACT(node="old", job="j1"), done)
        await yard.down()
        yard.up(nodes=(Node("new"),))
        assert msgspec.json.decode(known.read_bytes()) == ["new"]
    finally:
        yard.kill()
