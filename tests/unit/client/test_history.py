from collections.abc import AsyncIterator

import pytest

from gpuyard.bus.port import Message
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import Failure, InvalidSpec, NotFound, Unavailable
from gpuyard.contracts.history import GpuHistory, History, HistoryQuery
from gpuyard.contracts.subjects import HISTORY_QUERY
from tests.unit.client.fake_yard import NODE, FakeYard, fake_yard

HISTORY = History(NODE, 100.0, 60.0, (GpuHistory("GPU-a", (0.0, None, 1.0), (1, None, 2)),))


@pytest.fixture
async def yard() -> AsyncIterator[FakeYard]:
    async with fake_yard() as yard:
        yield yard


@pytest.fixture
async def client(yard: FakeYard) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(bus=yard.bus, timeout_s=0.05) as client:
        yield client


async def test_the_monitor_of_the_node_is_asked(
    yard: FakeYard, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, HistoryQuery]] = []
    request = yard.bus.request

    async def noting(subject: str, payload: bytes, *, timeout_s: float) -> Message:
        asked.append((subject, decode(payload, HistoryQuery)))
        return await request(subject, payload, timeout_s=30)

    monkeypatch.setattr(yard.bus, "request", noting)
    yard.histories[NODE] = HISTORY
    assert await client.history(NODE, last_s=180, step_s=60) == HISTORY
    assert asked == [(HISTORY_QUERY(node=NODE), HistoryQuery(180.0, 60.0))]


async def test_a_refusal_is_raised(yard: FakeYard, client: AsyncClient) -> None:
    yard.histories[NODE] = Failure("not_found", "this monitor has no such node")
    with pytest.raises(NotFound, match="no such node"):
        await client.history(NODE)


async def test_a_monitor_without_an_answer_is_named(client: AsyncClient) -> None:
    with pytest.raises(Unavailable, match=f"the monitor of node {NODE} does not answer") as error:
        await client.history(NODE)
    assert error.value.details["node"] == NODE


@pytest.mark.parametrize(
    ("node", "last_s", "step_s", "word"),
    [
        ("no node!", 60, 1, "no node!"),
        (NODE, 0, 1, "last_s"),
        (NODE, 60, 0.5, "step_s"),
        (NODE, 3601, 1, "last_s"),
    ],
)
async def test_what_can_be_no_question_is_not_asked(
    client: AsyncClient, node: str, last_s: float, step_s: float, word: str
) -> None:
    with pytest.raises(InvalidSpec, match=word):
        await client.history(node, last_s=last_s, step_s=step_s)
