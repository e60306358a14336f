"""`python -m gpuyard.yard.prune DIR NODE...`: takes the records of nodes that left out of the NODES stream.

Only `gpuyard up` starts it, before there is a scheduler that could believe in them, and as a process of its
own, because `up` does without a client of the bus. A node where something may still run keeps its records.
"""

import asyncio
import sys
from collections.abc import Set
from pathlib import Path

import msgspec

from gpuyard.bus.nats_bus import connect
from gpuyard.bus.port import Bus, From
from gpuyard.client.locate import write_private
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.fact import GangFact
from gpuyard.contracts.subjects import EXECUTOR, FACT, FACTS_STREAM, INVENTORY, NODES_STREAM
from gpuyard.yard.endpoints import Endpoints
from gpuyard.yard.layout import Layout


async def prune(bus: Bus, wanted: Set[str]) -> Set[str]:
    """Remove the records of all other nodes that hold nothing; returns the nodes that have records now."""
    await bus.ensure((NODES_STREAM, FACTS_STREAM))
    staying = wanted | await _holding(bus)
    recorded = await _recorded(bus)
    for node in sorted(recorded - staying):
        await bus.trim(NODES_STREAM, subject=INVENTORY(node=node))
        await bus.trim(NODES_STREAM, subject=EXECUTOR(node=node))
    return wanted | (recorded & staying)


async def _recorded(bus: Bus) -> set[str]:
    nodes = set()
    async with bus.read(NODES_STREAM, start=From.LAST_PER_SUBJECT) as reader:
        while reader.backlog:
            nodes.add((await anext(reader)).subject.rpartition(".")[2])
    return nodes


async def _holding(bus: Bus) -> set[str]:
    """Nodes that did not say of everything they ran that nothing is left."""
    nodes = set()
    async with bus.read(FACTS_STREAM, start=From.LAST_PER_SUBJECT) as reader:
        while reader.backlog:
            message = await anext(reader)
            if not _is_released(message.payload):
                nodes.add(FACT.ids(message.subject)["node"])
    return nodes


def _is_released(payload: bytes) -> bool:
    try:
        return decode(payload, GangFact).released
    except InvalidSpec:
        return False


async def _run(layout: Layout, wanted: Set[str]) -> None:
    endpoints = msgspec.json.decode(layout.endpoints.read_bytes(), type=Endpoints)
    async with connect(endpoints.url, name="prune") as bus:
        nodes = await prune(bus, wanted)
    write_private(layout.nodes, msgspec.json.encode(sorted(nodes)))


def main(argv: list[str]) -> int:
    folder, *wanted = argv
    try:
        asyncio.run(_run(Layout(Path(folder)), set(wanted)))
    except (GpuyardError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
