"""Gangs on real services: never a part of one, cancelled in every state, refused when wrong."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from gpuyard import AsyncClient, Job, JobSpec, JobState, TaskSpec
from gpuyard.bus.nats_bus import NatsBus, connect
from gpuyard.bus.port import From
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Conflict, Failure, InvalidSpec, NotFound, Refused
from gpuyard.contracts.request import Accepted, Reply, Submit
from gpuyard.contracts.subjects import JOB, REQUEST, STATE_STREAM
from gpuyard.yard.probe import ask_service
from tests.realyard import GENEROUS_S, RealYard, lines_by_rank, real_yard

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealYard]:
    """One node of six GPUs."""
    with real_yard(tmp_path_factory.mktemp("gangs") / "yard", "6gpu-4plus2") as running:
        yield running


@pytest.fixture
async def client(yard: RealYard) -> AsyncIterator[AsyncClient]:
    async with yard.client(timeout_s=30) as connected:
        yield connected


@pytest.fixture
async def bus(yard: RealYard) -> AsyncIterator[NatsBus]:
    async with connect(yard.file.url, "test") as connected:
        yield connected


def spec(*command: str, gpus: int = 1, name: str = "job") -> JobSpec:
    return JobSpec((TaskSpec(command, gpus=gpus),), name=name, grace_s=1.0)


async def settled(client: AsyncClient) -> None:
    """Wait until nothing of earlier tests holds a GPU."""
    while await client.list(active_only=True):
        await asyncio.sleep(0.02)


async def test_two_gangs_of_four_on_six_gpus_never_overlap(client: AsyncClient, bus: NatsBus) -> None:
    await settled(client)
    ids: set[str] = set()
    for _ in range(50):
        pair = await asyncio.gather(*(client.submit(spec("true", gpus=4)) for _ in range(2)))
        ended = await asyncio.gather(*(client.wait(job, timeout_s=GENEROUS_S) for job in pair))
        assert [job.state for job in ended] == [JobState.SUCCEEDED] * 2
        ids |= {job.id for job in ended}
    holding: set[str] = set()
    for job in [job for job in await history(bus) if job.id in ids]:
        if job.placement and not job.state.is_final:
            assert sum(len(slot.gpus) for slot in job.placement.slots) == 4, "a partial gang"
            holding.add(job.id)
        else:
            holding.discard(job.id)
        assert len(holding) <= 1, f"{holding} hold GPUs at once"


async def history(bus: NatsBus) -> list[Job]:
    """Every record of every job in the order they were written."""
    async with bus.read(STATE_STREAM, JOB.all, start=From.FIRST) as reader:
        return [decode((await anext(reader)).payload, Job) for _ in range(reader.backlog)]


@pytest.mark.parametrize("state", ["queued", "starting", "running", "stopping"])
async def test_cancelled_in_every_state_twice(client: AsyncClient, state: str) -> None:
    await settled(client)
    blocker = await client.submit(spec("sleep", "600", gpus=6)) if state == "queued" else None
    stubborn = "trap '' TERM; echo up; while :; do sleep 0.05; done"
    job = await client.submit(spec("sh", "-c", stubborn, gpus=4))
    if state in ("running", "stopping"):
        async for _ in client.logs(job, follow=True):
            break
    if state == "stopping":
        job = await client.cancel(job)
        assert job.state is JobState.STOPPING
    await client.cancel(job)
    try:
        again = await client.cancel(job, wait=True)
    finally:
        if blocker:
            await client.cancel(blocker, wait=True)
    assert again.state is JobState.CANCELLED
    assert not [gpu for node in await client.nodes(sample_wait_s=0) for gpu in node.gpus if gpu.holder]
    assert (await client.cancel(job)).state is JobState.CANCELLED


async def test_the_first_failing_rank_is_named_and_ends_the_gang(client: AsyncClient) -> None:
    program = "import os, sys, time\nif os.environ['RANK'] == '2': sys.exit(7)\ntime.sleep(600)"
    job = await client.submit(spec(sys.executable, "-c", program, gpus=4))
    job = await client.wait(job, timeout_s=GENEROUS_S)
    assert job.state is JobState.FAILED
    assert job.exit is not None
    assert (job.exit.rank, job.exit.code) == (2, 7)


async def test_a_command_that_does_not_exist_fails_with_a_sentence(client: AsyncClient) -> None:
    job = await client.wait(await client.submit(spec("no-such-program")), timeout_s=GENEROUS_S)
    assert job.state is JobState.FAILED
    assert job.exit is not None
    assert job.exit.code == 127
    assert "no-such-program" in job.exit.message


async def test_ranks_find_what_torchrun_would_set(client: AsyncClient) -> None:
    shown = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR"
    job = await client.submit(spec("sh", "-c", f"{shown}; test $MASTER_PORT -gt 0", gpus=2))
    lines = await lines_by_rank(client, job.id)
    assert [lines[rank][0].text for rank in (0, 1)] == [b"0 2 0 2 0 127.0.0.1", b"1 2 1 2 0 127.0.0.1"]
    assert (await client.wait(job)).state is JobState.SUCCEEDED


async def test_one_request_id_is_one_job(client: AsyncClient) -> None:
    first = await client.submit(spec("true"), request_id="the-same")
    again = await client.submit(spec("true"), request_id="the-same")
    assert first.id == again.id
    assert (await client.wait(first, timeout_s=GENEROUS_S)).attempt == 1


async def test_what_never_fits_is_refused(client: AsyncClient) -> None:
    with pytest.raises(Refused, match="7 GPUs") as caught:
        await client.submit(spec("true", gpus=7))
    assert "at most 6" in caught.value.hint


async def test_unknown_jobs_and_ended_ones_cannot_be_cancelled(client: AsyncClient) -> None:
    with pytest.raises(NotFound):
        await client.cancel("nobody-abcdef")
    job = await client.wait(await client.submit(spec("true")), timeout_s=GENEROUS_S)
    with pytest.raises(Conflict, match="already succeeded"):
        await client.cancel(job)


GOOD = msgspec.to_builtins(Submit("r-good", spec("true")))
BAD: dict[str, Any] = {
    "not MessagePack": b"\xc1 nonsense",
    "nothing": b"",
    "another type": {**GOOD, "type": "launch"},
    "no type": {"request_id": "x"},
    "a missing field": {"type": "submit", "request_id": "x"},
    "a wrong field": {**GOOD, "spec": {"tasks": "all"}},
    "a value that is no text": b"\x85" + msgspec.msgpack.encode(GOOD)[1:] + b"\xa1z\xa1\xff",
    "two tasks of one name": {**GOOD, "spec": {"tasks": [{"command": ["a"]}, {"command": ["b"]}]}},
    "a misspelt key": {**GOOD, "spec": {**GOOD["spec"], "priorty": 1}},
    "negative GPUs": {**GOOD, "spec": {"tasks": [{"command": ["true"], "gpus": -1}]}},
    "huge GPUs": {**GOOD, "spec": {"tasks": [{"command": ["true"], "gpus": 2**63}]}},
    "uneven GPUs": {**GOOD, "spec": {"tasks": [{"command": ["true"], "gpus": 3, "ranks": 2}]}},
    **{
        f"job id {id_[:20]!r}": {"type": "cancel", "request_id": "x", "job": id_}
        for id_ in ("a/b", "a.b", "*", ">", "a\0b", "a b", "../x", "x" * 10_000, "a\n", "")
    },
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_requests_are_answered_counted_and_change_nothing(
    yard: RealYard, bus: NatsBus, client: AsyncClient, name: str
) -> None:
    jobs, rejected = len(await client.list()), await rejected_requests(yard)
    bad: Any = BAD[name]
    inbox = bus.new_inbox()
    async with bus.subscribe(inbox) as answers:
        payload = bad if isinstance(bad, bytes) else msgspec.msgpack.encode({**bad, "reply_to": inbox})
        await bus.append(REQUEST(kind="submit"), payload)
        if not isinstance(bad, bytes):
            reply: Reply = decode((await asyncio.wait_for(anext(answers), GENEROUS_S)).payload, Reply)
            assert isinstance(reply, Failure)
            assert reply.code == "invalid"
            assert reply.message
        good = Submit(f"after-{abs(hash(name))}", spec("true"), inbox)
        await bus.append(REQUEST(kind="submit"), encode(good))
        reply = decode((await asyncio.wait_for(anext(answers), GENEROUS_S)).payload, Reply)
    assert isinstance(reply, Accepted), "the queue behind a bad request must move on"
    assert len(await client.list()) == jobs + 1
    assert await rejected_requests(yard) == rejected + 1
    assert (await ask_service(health_port(yard))).is_ready


def health_port(yard: RealYard) -> int:
    port = yard.file.services["scheduler"].health_port
    assert port
    return port


async def rejected_requests(yard: RealYard) -> float:
    """What the scheduler counts on /metrics."""
    reader, writer = await asyncio.open_connection("127.0.0.1", health_port(yard))
    writer.write(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
    page = (await reader.read()).decode()
    writer.close()
    counted = re.search(r'^gpuyard_rejected_total\{subject="gpuyard.request"\} (\S+)', page, re.MULTILINE)
    return float(counted[1]) if counted else 0.0


async def test_messages_of_two_megabytes_are_refused_before_they_leave(bus: NatsBus) -> None:
    with pytest.raises(InvalidSpec, match="bytes"):
        await bus.append(REQUEST(kind="submit"), b"x" * 2_000_000)
    assert await bus.last(STATE_STREAM, JOB(job="nobody")) is None


async def test_a_raw_client_with_two_megabytes_harms_nobody(yard: RealYard, client: AsyncClient) -> None:
    token, _, address = yard.file.url.removeprefix("nats://").partition("@")
    reader, writer = await asyncio.open_connection(*address.split(":"))
    connect_ = f'CONNECT {{"verbose":false,"auth_token":"{token}"}}\r\n'.encode()
    writer.write(connect_ + b"PUB gpuyard.request.submit 2000000\r\n")
    answers = await asyncio.wait_for(reader.read(), GENEROUS_S)
    writer.close()
    assert b"Maximum Payload" in answers
    job = await client.wait(await client.submit(spec("true")), timeout_s=GENEROUS_S)
    assert job.state is JobState.SUCCEEDED
