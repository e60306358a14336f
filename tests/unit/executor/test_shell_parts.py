"""Ports, journal and publisher."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest
import structlog

from gpuyard.bus.memory import MemoryBus
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import Conflict, Unavailable
from gpuyard.contracts.fact import GangFact
from gpuyard.contracts.subjects import FACTS_STREAM, STREAMS
from gpuyard.runtime.clock import SystemClock
from gpuyard_executor.core.rank import GangKey
from gpuyard_executor.journal import Entry, Journal
from gpuyard_executor.ports import Ports
from gpuyard_executor.publisher import Publisher
from tests.natsd import free_port
from tests.unit.executor.orders import NODE, prepare, start, stop

GENEROUS_S = 60.0


def test_a_port_in_use_is_not_given() -> None:
    port = free_port()
    with socket.socket() as user:
        user.bind(("", port))
        user.listen()
        assert Ports(port, port).reserve(GangKey("j1", 1)) is None


def test_a_port_is_given_once_until_it_is_free_again() -> None:
    port = free_port()
    ports = Ports(port, port)
    assert ports.reserve(GangKey("j1", 1)) == port
    assert ports.reserve(GangKey("j1", 1)) == port
    assert ports.reserve(GangKey("j2", 1)) is None
    ports.free(GangKey("j1", 1))
    assert ports.reserve(GangKey("j2", 1)) == port


def test_a_known_port_is_remembered_even_while_it_is_used() -> None:
    ports = Ports(1, 0)
    assert ports.reserve(GangKey("j1", 1), 29500) == 29500
    assert ports.reserve(GangKey("j1", 1)) == 29500
    assert ports.reserve(GangKey("j2", 1)) is None


def test_the_journal_gives_back_what_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "orders")
    entries = [Entry(prepare(), "trace"), Entry(start()), Entry(stop()), Entry(stop("j2"))]
    for entry in entries * 2:
        journal.write(entry)
    assert sorted(map(repr, journal.read())) == sorted(map(repr, entries))
    journal.forget(GangKey("j1", 1))
    journal.forget(GangKey("j1", 1))
    assert Journal(tmp_path / "orders").read() == [Entry(stop("j2"))]


def test_a_torn_entry_counts_as_never_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.write(Entry(prepare()))
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    assert journal.read() == []
    assert list(tmp_path.iterdir()) == []


class SlowBus(MemoryBus):
    """Appends only when it is let, and fails as often as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go = asyncio.Semaphore(0)
        self.failures = 0

    async def append(self, *args: Any, **options: Any) -> Any:
        await self.may_go.acquire()
        if self.failures:
            self.failures -= 1
            raise Unavailable("no answer")
        return await super().append(*args, **options)


def fact(term: int, job: str = "j1") -> GangFact:
    return GangFact(NODE, job, 1, term, 0.0)


@pytest.mark.parametrize("failures", [0, 3])
async def test_changes_collapse_and_the_newest_gets_out(failures: int) -> None:
    bus, published = SlowBus(), asyncio.Queue[GangFact]()
    await bus.ensure(STREAMS)
    bus.failures = failures
    publisher = Publisher(bus, SystemClock(), structlog.get_logger(), published.put_nowait)
    for term in range(5):
        publisher.publish(fact(term), {})
        await asyncio.sleep(0)
    for _ in range(2 + failures):
        bus.may_go.release()
    async with asyncio.timeout(GENEROUS_S):
        while (await published.get()) != fact(4):
            pass
    newest = await bus.last(FACTS_STREAM, "gpuyard.fact.n1.j1")
    assert newest
    assert decode(newest.payload, GangFact) == fact(4)
    assert newest.seq <= 2
    await publisher.close()


async def test_a_fact_that_arrives_late_does_not_replace_a_newer_one() -> None:
    bus, published = LateBus(), asyncio.Queue[GangFact]()
    await bus.ensure(STREAMS)
    publisher = Publisher(bus, SystemClock(), structlog.get_logger(), published.put_nowait)
    publisher.publish(fact(1), {})
    async with asyncio.timeout(GENEROUS_S):
        assert await published.get() == fact(1)
        with pytest.raises(Conflict):
            await bus.deliver_late()
        publisher.publish(fact(2), {})
        assert await published.get() == fact(2)
    await publisher.close()


async def test_a_fact_that_got_through_unseen_is_no_obstacle() -> None:
    bus, published = LateBus(), asyncio.Queue[GangFact]()
    await bus.ensure(STREAMS)
    publisher = Publisher(bus, SystemClock(), structlog.get_logger(), published.put_nowait)
    publisher.publish(fact(1), {})
    await asyncio.sleep(0)
    await bus.deliver_late()
    async with asyncio.timeout(GENEROUS_S):
        assert await published.get() == fact(1)
    await publisher.close()


class LateBus(MemoryBus):
    """Its first append gets no answer and stays in some buffer."""

    def __init__(self) -> None:
        super().__init__()
        self._late: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    async def append(self, *args: Any, **options: Any) -> Any:
        if self._late is None:
            self._late = args, options
            raise Unavailable("no answer")
        return await super().append(*args, **options)

    async def deliver_late(self) -> None:
        assert self._late
        await super().append(*self._late[0], **self._late[1])


async def test_jobs_do_not_wait_for_each_other() -> None:
    bus, published = SlowBus(), asyncio.Queue[GangFact]()
    await bus.ensure(STREAMS)
    publisher = Publisher(bus, SystemClock(), structlog.get_logger(), published.put_nowait)
    for job in ("j1", "j2"):
        publisher.publish(fact(1, job), {})
    bus.may_go.release()
    bus.may_go.release()
    async with asyncio.timeout(GENEROUS_S):
        assert {(await published.get()).job for _ in range(2)} == {"j1", "j2"}
    await publisher.close()
