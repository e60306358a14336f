"""One bus after the other: in memory, and on a real nats-server that the module's tests share."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.nats_bus import connect
from gpuyard.bus.port import Bus
from gpuyard.contracts.subjects import MIB, Stream
from tests.natsd import NatsServer

MakeStream = Callable[..., Stream]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    folder: Path = tmp_path_factory.mktemp("natsd")
    with NatsServer(folder) as server:
        yield server


@pytest.fixture(params=["memory", "nats"])
async def bus(request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    if request.param == "memory":
        yield MemoryBus()
        return
    server: NatsServer = request.getfixturevalue("nats_server")
    async with connect(server.url, "contract-test") as nats_bus:
        yield nats_bus


@pytest.fixture
def make_stream() -> MakeStream:
    """Streams that no other test has seen: `make_stream(kind="work")` takes `t7.>`."""

    def make(**settings: Any) -> Stream:
        number = next(_numbers)
        return Stream(f"T{number}", (f"t{number}.>",), "A test's.", **({"max_bytes": MIB, **settings}))

    return make
