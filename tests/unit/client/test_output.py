import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from gpuyard.client import follow, output
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.job import Exit, ExitCause, JobState
from tests.unit.client.fake_yard import FakeYard, a_job, a_spec, fake_yard


@pytest.fixture
async def yard() -> AsyncIterator[FakeYard]:
    async with fake_yard() as yard:
        yield yard


@pytest.fixture
async def client(yard: FakeYard) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(bus=yard.bus) as client:
        yield client


def is_told(text: str) -> None:
    raise AssertionError(f"nothing was to be told, but: {text}")


async def test_lines_are_followed_to_their_end_mark(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.start(await yard.record(a_job(a_spec(ranks=2))))
    await yard.print_lines(job, 0, "one")
    async with aclosing(client.logs(job, follow=True, notice=is_told)) as lines:
        texts = [(await anext(lines)).text]
        await yard.print_lines(job, 1, "other", end=True)
        await yard.print_lines(job, 0, "two", first=1, end=True)
        await yard.end(job)
        texts += [line.text async for line in lines]
    assert sorted(texts) == [b"one", b"other", b"two"]


async def test_without_follow_only_what_is_there_is_given(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.start(await yard.record(a_job()))
    await yard.print_lines(job, 0, "one", "two")
    assert [line.seq async for line in client.logs(job)] == [0, 1]


async def test_a_failed_launch_is_followed_into_the_next_attempt(
    client: AsyncClient, yard: FakeYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "NEVER_RAN_QUIET_S", 0.02)
    job = await yard.place(await yard.record(a_job()))
    async with aclosing(client.logs(job, follow=True, notice=is_told)) as lines:
        first = asyncio.ensure_future(anext(lines))
        await asyncio.sleep(0)
        job = await yard.start(await yard.requeue(job))
        await yard.print_lines(job, 0, "at last", end=True)
        line = await first
        assert (line.attempt, line.text) == (2, b"at last")
        await yard.end(job)
        assert [line async for line in lines] == []


async def test_one_attempt_alone_can_be_followed(
    client: AsyncClient, yard: FakeYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "NEVER_RAN_QUIET_S", 0.02)
    job = await yard.place(await yard.record(a_job()))
    await yard.print_lines(job, 0, "first")
    job = await yard.start(await yard.requeue(job))
    await yard.print_lines(job, 0, "second", end=True)
    assert [line.text async for line in client.logs(job, follow=True, attempt=1)] == [b"first"]
    assert [line.text async for line in client.logs(job, follow=True, attempt=2)] == [b"second"]


async def test_a_lost_end_mark_does_not_hang_the_reader_and_is_told(
    client: AsyncClient, yard: FakeYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "QUIET_S", 0.05)
    job = await yard.start(await yard.record(a_job()))
    await yard.print_lines(job, 0, "last words")
    await yard.end(job, JobState.FAILED, Exit(None, ExitCause.NODE_LOST))
    told: list[str] = []
    lines = [line.text async for line in client.logs(job, follow=True, notice=told.append)]
    assert lines == [b"last words"]
    assert any("end mark" in text for text in told)


async def test_a_job_that_never_started_has_no_output(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.record(a_job())
    await yard.end(job, JobState.CANCELLED)
    assert [line async for line in client.logs(job, follow=True, notice=is_told)] == []


async def test_what_breaks_the_reading_reaches_the_reader(
    client: AsyncClient, yard: FakeYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> AsyncIterator[None]:
        yield None
        raise Unavailable("the bus is gone")

    job = await yard.start(await yard.record(a_job()))
    monkeypatch.setattr(follow, "follow", broken)
    with pytest.raises(Unavailable, match="the bus is gone"):
        async for _ in client.logs(job, follow=True):
            pass


async def test_leaving_early_leaves_no_task_behind(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.start(await yard.record(a_job()))
    await yard.print_lines(job, 0, *(f"line {number}" for number in range(3 * output.AHEAD_LINES)))
    before = asyncio.all_tasks()
    async with aclosing(client.logs(job, follow=True)) as lines:
        await anext(lines)
    left = asyncio.all_tasks() - before
    if left:
        await asyncio.wait(left, timeout=30)
    assert all(task.done() for task in left)
