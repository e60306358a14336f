import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gpuyard.client import asking
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.errors import Conflict, Failure, Fault, InvalidSpec, NotFound, Refused, Unavailable
from gpuyard.contracts.ids import job_id
from gpuyard.contracts.job import JobState
from gpuyard.contracts.request import Submit
from gpuyard.contracts.subjects import UPLOADS_BUCKET
from gpuyard.telemetry import traces
from tests.unit.client.fake_yard import FakeYard, a_job, a_spec, fake_yard


@pytest.fixture
async def yard() -> AsyncIterator[FakeYard]:
    async with fake_yard() as yard:
        yield yard


@pytest.fixture
async def client(yard: FakeYard) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(bus=yard.bus) as client:
        yield client


# Submitting


async def test_a_submitted_job_is_on_disk_and_has_an_owner(client: AsyncClient) -> None:
    job = await client.submit(a_spec())
    assert job.state is JobState.QUEUED
    assert job.spec.owner
    assert await client.get(job) == job


async def test_an_owner_that_was_given_stays(client: AsyncClient) -> None:
    job = await client.submit(a_spec(owner="somebody"))
    assert job.spec.owner == "somebody"


async def test_the_same_request_id_makes_one_job(client: AsyncClient) -> None:
    first = await client.submit(a_spec(), request_id="mine")
    again = await client.submit(a_spec(), request_id="mine")
    other = await client.submit(a_spec())
    assert first == again
    assert other.id != first.id
    assert len(await client.list()) == 2


async def test_a_spec_that_breaks_the_contract_never_leaves(client: AsyncClient, yard: FakeYard) -> None:
    with pytest.raises(InvalidSpec, match="priority"):
        await client.submit(a_spec(priority=5000))
    with pytest.raises(InvalidSpec, match="request_id"):
        await client.submit(a_spec(), request_id="with/slash")
    assert not yard.requests


async def test_a_refusal_is_raised_with_its_hint(client: AsyncClient, yard: FakeYard) -> None:
    yard.refusal = Failure("refused", "no node has 9 GPUs", "8 fit.", details={"most": "8"})
    with pytest.raises(Refused, match="no node has 9 GPUs") as caught:
        await client.submit(a_spec())
    assert caught.value.hint == "8 fit."
    assert caught.value.details == {"most": "8"}


async def test_a_lost_answer_is_asked_for_again(
    client: AsyncClient, yard: FakeYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "AGAIN_AFTER_S", 0.05)
    yard.unanswered = 2
    job = await client.submit(a_spec())
    assert len(yard.requests) >= 3
    assert len({request.request_id for request in yard.requests}) == 1
    assert await client.list() == [job]


async def test_without_a_scheduler_the_request_is_recorded_and_the_job_id_known(
    yard: FakeYard,
) -> None:
    yard.unanswered = 1_000_000
    async with AsyncClient(bus=yard.bus, timeout_s=0.2) as client:
        with pytest.raises(Unavailable, match="is recorded") as caught:
            await client.submit(a_spec("train"), request_id="mine")
    assert caught.value.details == {"job": job_id("train", "mine"), "request_id": "mine"}
    assert job_id("train", "mine") in caught.value.hint


async def test_without_a_bus_it_is_unknown_whether_the_request_is_recorded(
    yard: FakeYard, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        await asyncio.sleep(0)
        raise Unavailable("no answer in time")

    monkeypatch.setattr(yard.bus, "append", fail)
    async with AsyncClient(bus=yard.bus, timeout_s=0.1) as client:
        with pytest.raises(Unavailable, match="unknown") as caught:
            await client.submit(a_spec(), request_id="mine")
    assert "mine" in caught.value.hint


async def test_a_working_directory_is_uploaded_once(
    client: AsyncClient, yard: FakeYard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    first = await client.submit(a_spec(), workdir=tmp_path)
    assert await yard.bus.get_object(UPLOADS_BUCKET, first.spec.workdir)

    async def fail(*_: object) -> None:
        raise AssertionError("uploaded again")

    monkeypatch.setattr(yard.bus, "put_object", fail)
    second = await client.submit(a_spec(), workdir=str(tmp_path))
    assert second.spec.workdir == first.spec.workdir


async def test_the_trace_of_the_caller_travels_with_the_request(client: AsyncClient, yard: FakeYard) -> None:
    parent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
    with traces.span("test", parent=parent):
        await client.submit(a_spec())
    assert parent.split("-")[1] in yard.headers[0][traces.HEADER]


# Finding


async def test_jobs_are_found_by_id_beginning_and_name(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.record(a_job(a_spec("train-big")))
    await yard.record(a_job(a_spec("other"), request_id="r2"))
    for ref in (job.id, job.id[:-2], "train-big", "train-b"):
        assert (await client.get(ref)).id == job.id


async def test_a_name_wins_over_a_beginning(client: AsyncClient, yard: FakeYard) -> None:
    exact = await yard.record(a_job(a_spec("train")))
    await yard.record(a_job(a_spec("train-big"), request_id="r2"))
    assert (await client.get("train")).id == exact.id


async def test_of_several_with_a_name_the_only_active_one_is_meant(
    client: AsyncClient, yard: FakeYard
) -> None:
    await yard.end(await yard.record(a_job(request_id="r1")))
    active = await yard.record(a_job(request_id="r2"))
    assert (await client.get("train")).id == active.id


@pytest.mark.parametrize("ended", [False, True])
async def test_an_ambiguous_name_lists_the_candidates(
    client: AsyncClient, yard: FakeYard, ended: bool
) -> None:
    jobs = [await yard.record(a_job(request_id=f"r{n}", at_s=float(n))) for n in range(7)]
    if ended:
        jobs = [await yard.end(job) for job in jobs]
    with pytest.raises(Conflict, match="and 2 more") as caught:
        await client.get("train")
    assert caught.value.details["candidates"].split() == [job.id for job in reversed(jobs)]


async def test_what_is_not_there_is_not_found(client: AsyncClient) -> None:
    with pytest.raises(NotFound, match="nothing-like-it"):
        await client.get("nothing-like-it")


@pytest.mark.parametrize("ref", ["", "a/b", "a.b", "*", ">", "a\0b", "Train", "x" * 10_000, "a\n"])
async def test_what_can_be_no_job_is_refused(client: AsyncClient, ref: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        await client.get(ref)
    assert len(caught.value.message) < 300


async def test_jobs_are_listed_newest_first(client: AsyncClient, yard: FakeYard) -> None:
    jobs = [await yard.record(a_job(request_id=f"r{n}", at_s=float(n))) for n in range(4)]
    ended = await yard.end(jobs[3])
    assert [job.id for job in await client.list()] == [job.id for job in (ended, *reversed(jobs[:3]))]
    assert [job.id for job in await client.list(active_only=True)] == [job.id for job in reversed(jobs[:3])]
    assert [job.id for job in await client.list(active_only=True, limit=1)] == [jobs[2].id]


async def test_an_empty_yard_has_no_jobs(client: AsyncClient) -> None:
    assert await client.list() == []


# Waiting


async def test_wait_returns_the_ended_job(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.start(await yard.record(a_job()))
    waiting = asyncio.create_task(client.wait(job, timeout_s=30))
    await asyncio.sleep(0)
    assert not waiting.done()
    await yard.end(job)
    assert (await waiting).state is JobState.SUCCEEDED


async def test_wait_gives_up_in_time(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.record(a_job())
    with pytest.raises(TimeoutError, match="still queued"):
        await client.wait(job, timeout_s=0.02)


async def test_watch_shows_every_change(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.record(a_job())
    async with aclosing(client.watch("train")) as changes:
        states = [(await anext(changes)).state]
        await yard.end(await yard.start(job))
        states += [change.state async for change in changes]
    assert states == [JobState.QUEUED, JobState.STARTING, JobState.RUNNING, JobState.SUCCEEDED]


# Cancelling


async def test_cancel_twice_succeeds_twice(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.record(a_job())
    assert (await client.cancel("train", wait=True)).state is JobState.CANCELLED
    assert (await client.cancel(job)).state is JobState.CANCELLED


async def test_what_has_ended_otherwise_cant_be_cancelled(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.end(await yard.record(a_job()))
    with pytest.raises(Conflict, match="already succeeded"):
        await client.cancel(job)


# Events


async def test_events_are_numbered_and_resumable(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.record(a_job(), "queued", "explained")
    other = await yard.record(a_job(request_id="r2"), "queued")
    await yard.end(await yard.start(job))
    events = [event async for event in client.events()]
    assert [(event.job, event.kind) for event in events[:3]] == [
        (job.id, "queued"),
        (job.id, "explained"),
        (other.id, "queued"),
    ]
    assert [(event.seq, event.index) for event in events] == [(1, 0), (1, 1), (2, 0), (3, 0), (4, 0), (5, 0)]
    for event in events:
        rest = [later async for later in client.events(after=event.seq)]
        assert rest == [later for later in events if later.seq > event.seq]
    assert [event.kind async for event in client.events(job)] == [
        "queued",
        "explained",
        "placed",
        "running",
        "succeeded",
    ]


async def test_followed_events_of_a_job_end_with_it(client: AsyncClient, yard: FakeYard) -> None:
    job = await yard.record(a_job(), "queued")
    async with aclosing(client.events(job, follow=True)) as events:
        kinds = [(await anext(events)).kind]
        await yard.end(await yard.start(job))
        kinds += [event.kind async for event in events]
    assert kinds == ["queued", "placed", "running", "succeeded"]
    assert [event async for event in client.events(job, after=1_000, follow=True)] == []


# Logs


async def test_ranks_that_dont_exist_are_refused(client: AsyncClient, yard: FakeYard) -> None:
    await yard.record(a_job(a_spec(ranks=2)))
    with pytest.raises(NotFound, match="has no rank 2"):
        await anext(client.logs("train", ranks=[0, 2]))


async def test_a_given_bus_stays_usable(yard: FakeYard) -> None:
    for _ in range(2):
        async with AsyncClient(bus=yard.bus) as client:
            await client.submit(a_spec())
    assert all(isinstance(request, Submit) for request in yard.requests)


async def test_outside_its_block_a_client_says_so(yard: FakeYard) -> None:
    client = AsyncClient(bus=yard.bus)
    with pytest.raises(RuntimeError, match="`with` block"):
        await client.list()


async def test_a_record_that_cant_be_read_is_named(client: AsyncClient, yard: FakeYard) -> None:
    await yard.bus.append("gpuyard.state.job.bad-1", b"\xc1")
    with pytest.raises(Fault, match="bad-1"):
        await client.list()
