"""The SDK over a real nats-server, with doubles for the services."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

from gpuyard import AsyncClient, Client, JobState, TaskSpec, Unavailable
from gpuyard.bus.nats_bus import connect
from gpuyard.client import workdir
from gpuyard.contracts.job import Job, JobSpec
from gpuyard.contracts.subjects import UPLOADS_BUCKET
from tests.natsd import NatsServer
from tests.unit.client.fake_yard import FakeYard, fake_yard

SPEC = JobSpec((TaskSpec(("python", "train.py"), ranks=2),), name="train")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "server", durable=False) as server:
        yield server


@pytest.fixture
async def yard(server: NatsServer) -> AsyncIterator[FakeYard]:
    async with connect(server.url, "double") as bus, fake_yard(bus) as yard:
        yard.script = print_and_succeed
        yield yard


async def print_and_succeed(yard: FakeYard, job: Job) -> None:
    job = await yard.start(job)
    for number in range(10):
        for rank in range(2):
            await yard.print_lines(job, rank, f"{number}", first=number, end=number == 9)
    await yard.end(job)


async def test_from_submit_to_the_last_line(yard: FakeYard, server: NatsServer, tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print(1)")
    async with AsyncClient(server.url) as client:
        job = await client.submit(SPEC, workdir=tmp_path / "code", request_id="mine")
        assert (
            await yard.bus.get_object(UPLOADS_BUCKET, job.spec.workdir)
            == workdir.pack(tmp_path / "code").data
        )
        lines = [line async for line in client.logs(job, follow=True)]
        assert (await client.wait(job, timeout_s=60)).state is JobState.SUCCEEDED
        assert [event.kind async for event in client.events("train")] == [
            "queued",
            "placed",
            "running",
            "succeeded",
        ]
        again = await client.submit(SPEC, request_id="mine")
    for rank in range(2):
        assert [line.text for line in lines if line.rank == rank] == [b"%d" % n for n in range(10)]
    assert again.id == job.id


async def test_watching_outlives_the_server(yard: FakeYard, server: NatsServer) -> None:
    yard.script = None
    async with AsyncClient(server.url) as client:
        job = await client.submit(SPEC)
        async with aclosing(client.watch(job)) as changes:
            assert (await anext(changes)).state is JobState.QUEUED
            server.kill()
            server.start()
            while True:
                try:
                    started = await yard.start(job)
                    break
                except Unavailable:
                    continue
            assert (await anext(changes)).state is JobState.STARTING
            await yard.end(started)
            assert [change.state async for change in changes][-1] is JobState.SUCCEEDED


async def test_the_blocking_client(yard: FakeYard, server: NatsServer) -> None:
    def use() -> list[bytes]:
        with Client(server.url) as client:
            job = client.submit(SPEC)
            assert client.wait(job, timeout_s=60).state is JobState.SUCCEEDED
            return [line.text for line in client.logs(job, follow=True, ranks=[1])]

    assert await asyncio.to_thread(use) == [b"%d" % n for n in range(10)]


async def test_an_iterator_may_outlive_its_client(yard: FakeYard, server: NatsServer) -> None:
    def use() -> None:
        with Client(server.url) as client:
            job = client.submit(SPEC)
            changes = client.watch(job)
            assert next(changes).id == job.id
        changes.close()

    await asyncio.to_thread(use)


async def test_no_server_is_unavailable(server: NatsServer) -> None:
    server.stop()
    with pytest.raises(Unavailable):
        async with AsyncClient(server.url):
            pass


@pytest.mark.parametrize("job", [None, "train"])
async def test_behind_the_last_event_there_is_nothing_yet(
    yard: FakeYard, server: NatsServer, job: str | None
) -> None:
    yard.script = None
    async with AsyncClient(server.url) as client:
        recorded = yard.jobs[(await client.submit(SPEC)).id]
        assert [event async for event in client.events(job, after=1000)] == []
        following = asyncio.ensure_future(anext(aiter(client.events(job, after=2, follow=True))))
        await yard.start(recorded)  # `placed` is the second record, `running` the third
        async with asyncio.timeout(60):
            assert (await following).kind == "running"
