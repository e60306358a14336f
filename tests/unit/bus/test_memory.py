"""What only a bus with a clock as a value can show: a night passes in no time."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from gpuyard.bus.mailbox import LIMIT, Mailbox
from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.port import From, Message
from gpuyard.contracts.subjects import Stream
from gpuyard.runtime.clock import FakeClock

T = TypeVar("T")
WORK = Stream("WORK", ("work.>",), "Orders.", kind="work")
LOG = Stream("LOG", ("log.>",), "Lines.")


async def bus_at(clock: FakeClock) -> MemoryBus:
    bus = MemoryBus(now=clock.now, sleep=clock.sleep)
    await bus.ensure([WORK, LOG])
    return bus


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def still_waits(work: Awaitable[T]) -> "asyncio.Future[T]":
    waiting = asyncio.ensure_future(work)
    await settle()
    assert not waiting.done()
    return waiting


async def test_a_message_comes_again_when_the_clock_says_so() -> None:
    clock = FakeClock()
    bus = await bus_at(clock)
    await bus.append("work.a", b"x")
    async with bus.work(WORK, "crew", ack_wait_s=3600.0) as work:
        first = await anext(work)
        again = await still_waits(anext(work))
        clock.advance(3599.0)
        await settle()
        assert not again.done()
        clock.advance(1.0)
        delivery = await again
        assert (delivery.message, delivery.tries) == (first.message, 2)


async def test_an_expired_message_is_seen_by_nobody() -> None:
    clock = FakeClock()
    bus = await bus_at(clock)
    await bus.append("log.a", b"mortal", ttl_s=60.0)
    async with bus.read(LOG, start=From.LAST_PER_SUBJECT) as reader:
        clock.advance(60.0)
        coming = await still_waits(anext(reader))
        assert reader.backlog == 0
        await bus.append("log.a", b"alive")
        assert (await coming).payload == b"alive"
    assert await bus.last(LOG, "log.b") is None


async def test_a_request_gives_up_when_the_clock_says_so() -> None:
    clock = FakeClock()
    bus = await bus_at(clock)
    async with bus.subscribe("ask.a"):
        asking = await still_waits(bus.request("ask.a", b"", timeout_s=3600.0))
        clock.advance(3600.0)
        await asyncio.wait([asking])
        assert "no answer" in str(asking.exception())


async def test_a_slow_subscriber_loses_the_oldest_and_knows_how_many() -> None:
    mailbox = Mailbox()
    for number in range(LIMIT + 3):
        mailbox.put(Message("room.a", str(number).encode()))
    assert mailbox.missed == 3
    assert (await anext(mailbox)).payload == b"3"


async def test_what_is_published_under_a_streams_subject_is_kept() -> None:
    bus = await bus_at(FakeClock())
    await bus.publish("log.a", b"x")
    newest = await bus.last(LOG, "log.a")
    assert newest is not None
    assert newest.payload == b"x"
