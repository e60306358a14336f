import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from gpuyard.client.aio import AsyncClient
from gpuyard.client.node_events import RecordedNodeEvent
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.node_event import NodeEvent
from gpuyard.contracts.subjects import NODE_EVENT
from tests.unit.client.fake_yard import FakeYard, fake_yard


@pytest.fixture
async def yard() -> AsyncIterator[FakeYard]:
    async with fake_yard() as yard:
        yield yard


@pytest.fixture
async def client(yard: FakeYard) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(bus=yard.bus) as client:
        yield client


def xid(node: str, number: int) -> NodeEvent:
    return NodeEvent(node, "xid", 5.0, f"XID {number}", "GPU-a")


async def kinds(client: AsyncClient, node: str | None = None, *, after: int = 0) -> list[tuple[str, str]]:
    return [(event.node, event.message) async for event in client.node_events(node, after=after)]


async def test_events_come_in_order_with_their_place(yard: FakeYard, client: AsyncClient) -> None:
    await yard.happen(xid("a", 79))
    await yard.happen(NodeEvent("b", "driver_changed", 6.0, "restart the monitor"))
    assert [event async for event in client.node_events()] == [
        RecordedNodeEvent(1, "a", "GPU-a", "xid", 5.0, "XID 79"),
        RecordedNodeEvent(2, "b", None, "driver_changed", 6.0, "restart the monitor"),
    ]
    assert await kinds(client, "b") == [("b", "restart the monitor")]
    assert await kinds(client, after=1) == [("b", "restart the monitor")]
    assert await kinds(client, after=2) == []
    assert await kinds(client, "c") == []


async def test_following_goes_on(yard: FakeYard, client: AsyncClient) -> None:
    await yard.happen(xid("a", 1))
    async with asyncio.timeout(30), aclosing(client.node_events("a", follow=True)) as events:
        assert (await anext(events)).message == "XID 1"
        await yard.happen(xid("b", 2))
        await yard.happen(xid("a", 3))
        assert (await anext(events)).message == "XID 3"


@pytest.mark.parametrize("follow", [False, True])
async def test_behind_the_end_only_what_comes_is_wanted(
    yard: FakeYard, client: AsyncClient, *, follow: bool
) -> None:
    await yard.happen(xid("a", 1))
    assert await kinds(client, after=99) == []
    if follow:
        async with asyncio.timeout(30), aclosing(client.node_events(after=99, follow=True)) as events:
            coming = asyncio.ensure_future(anext(events))
            while not coming.done():
                await yard.happen(xid("a", 2))
                await asyncio.sleep(0)
            assert (await coming).message == "XID 2"


async def test_an_event_that_cannot_be_read_hides_no_other(yard: FakeYard, client: AsyncClient) -> None:
    await yard.bus.append(NODE_EVENT(node="a"), b"\xc1")
    await yard.happen(xid("a", 2))
    assert await kinds(client) == [("a", "XID 2")]


async def test_what_can_be_no_node_is_refused(client: AsyncClient) -> None:
    with pytest.raises(InvalidSpec, match="no node!"):
        await kinds(client, "no node!")
