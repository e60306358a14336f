"""The executor as a process on a real nats-server."""

import asyncio
import hashlib
import io
import signal
import tarfile
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.fact import Beat, ExecutorInfo, RankState
from gpuyard.contracts.job import ExitCause, TaskSpec
from gpuyard.contracts.log import lines_of
from gpuyard.contracts.order import Prepare, Start, Stop
from gpuyard.contracts.rejected import Rejected
from gpuyard.contracts.subjects import (
    BEAT,
    EXECUTOR,
    NODES_STREAM,
    ORDER,
    REJECTED,
    REJECTS_STREAM,
    UPLOADS_BUCKET,
)
from tests.integration.executors import GENEROUS_S, Commander, ExecutorProcess, commander, released
from tests.natsd import NatsServer
from tests.unit.executor.orders import prepare, slot, stop


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("natsd")) as server:
        yield server


@pytest.fixture
async def scheduler(server: NatsServer) -> AsyncIterator[Commander]:
    async with commander(server) as scheduler:
        yield scheduler


@pytest.fixture(scope="module")
def executor(server: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExecutorProcess]:
    home = tmp_path_factory.mktemp("executor")
    executor = ExecutorProcess(home, server.url, "n1", "n2", GPUYARD_SECRET="hidden", NATS_TOKEN="hidden")
    executor.start()
    yield executor
    assert executor.kill(signal.SIGTERM) == 0, executor.log


def shell(job: str, script: str, **fields: Any) -> Prepare:
    return prepare(job, tasks=(TaskSpec(("sh", "-c", script)),), **fields)


async def printed(scheduler: Commander, job: str, rank: int = 0) -> list[str]:
    batches = await scheduler.output(job, 1, rank)
    return [line.text.decode() for batch in batches for line in lines_of(batch)]


@pytest.mark.usefixtures("executor")
async def test_a_gang_runs_as_under_torchrun(scheduler: Commander) -> None:
    script = "env | sort; pwd; ls -A"
    order = shell("torch", script, slots=(slot(0, "GPU-b"), slot(1, "GPU-a")), world_size=2)
    await scheduler.give(order)
    fact = await scheduler.fact("torch", released)
    assert [rank.exit.code for rank in fact.ranks if rank.exit] == [0, 0]
    assert all(rank.started_at_s and rank.ended_at_s for rank in fact.ranks)
    for rank in (0, 1):
        lines = await printed(scheduler, "torch", rank)
        seen = dict(line.split("=", 1) for line in lines if "=" in line)
        assert (seen["RANK"], seen["LOCAL_RANK"], seen["WORLD_SIZE"]) == (str(rank), str(rank), "2")
        assert seen["CUDA_VISIBLE_DEVICES"] == "GPU-b,GPU-a"
        assert (seen["MASTER_ADDR"], seen["MASTER_PORT"]) == ("127.0.0.1", str(fact.master_port))
        assert "hidden" not in seen.values()
        assert lines[-1].endswith("/work/torch.1"), "an empty directory of its own"


@pytest.mark.usefixtures("executor")
async def test_a_gang_on_two_nodes_starts_together(scheduler: Commander) -> None:
    for rank, node in enumerate(("n1", "n2")):
        here = slot(rank, node=node, local_rank=0)
        await scheduler.give(
            Prepare(node, "two", 1, 1, (here,), (TaskSpec(("sh", "-c", "echo $MASTER_PORT")),), 2)
        )
    facts = [
        await scheduler.fact("two", lambda fact: fact.ranks[0].state is RankState.READY, node)
        for node in ("n1", "n2")
    ]
    assert facts[0].master_port
    assert facts[1].master_port is None
    for node in ("n1", "n2"):
        await scheduler.give(Start(node, "two", 1, 1, "127.0.0.1", facts[0].master_port))
    for rank, node in enumerate(("n1", "n2")):
        assert (await scheduler.fact("two", released, node)).ranks[0].exit
        assert await printed(scheduler, "two", rank) == [str(facts[0].master_port)]


@pytest.mark.usefixtures("executor")
async def test_a_stop_ends_the_ranks(scheduler: Commander) -> None:
    await scheduler.give(shell("sleepy", "sleep 1000"))
    await scheduler.fact("sleepy", lambda fact: fact.ranks[0].state is RankState.RUNNING)
    for _ in range(2):
        await scheduler.give(stop("sleepy", cause=ExitCause.PREEMPTED))
    ended = (await scheduler.fact("sleepy", released)).ranks[0].exit
    assert ended
    assert (ended.code, ended.cause) == (143, ExitCause.PREEMPTED)
    await scheduler.give(stop("never-heard-of"))
    assert (await scheduler.fact("never-heard-of", released)).ranks == ()


@pytest.mark.usefixtures("executor")
async def test_the_uploaded_directory_is_the_working_directory(scheduler: Commander) -> None:
    upload = await put(scheduler, {"train.sh": b"cat data/words\n", "data/words": b"from the upload\n"})
    await scheduler.give(shell("upload", "sh train.sh", workdir=upload))
    assert await printed(scheduler, "upload") == ["from the upload"]


@pytest.mark.usefixtures("executor")
async def test_a_hostile_upload_is_refused(scheduler: Commander) -> None:
    upload = await put(scheduler, {"../outside": b"x"})
    await scheduler.give(shell("hostile", "true", workdir=upload))
    ended = (await scheduler.fact("hostile", released)).ranks[0].exit
    assert ended
    assert (ended.code, ended.cause) == (None, ExitCause.LAUNCH)
    assert "`../outside` leads out of the directory" in ended.message
    assert await printed(scheduler, "hostile") == []


async def put(scheduler: Commander, files: dict[str, bytes]) -> str:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    name = f"sha256-{hashlib.sha256(buffer.getvalue()).hexdigest()}"
    await scheduler.bus.put_object(UPLOADS_BUCKET, name, buffer.getvalue())
    return name


@pytest.mark.usefixtures("executor")
async def test_what_can_not_be_read_is_set_aside(scheduler: Commander) -> None:
    await scheduler.bus.append(ORDER(node="n1"), b"\xc1 no MessagePack")
    await scheduler.bus.append(ORDER(node="n1"), encode(Stop("n2", "x", 1, 1, ExitCause.CANCELLED)))
    async with asyncio.timeout(GENEROUS_S), scheduler.bus.read(REJECTS_STREAM, REJECTED.all) as reader:
        rejected = decode((await anext(reader)).payload, Rejected)
    assert (rejected.service, rejected.payload) == ("executor", b"\xc1 no MessagePack")
    await scheduler.give(shell("after", "exit 4"))
    ended = (await scheduler.fact("after", released)).ranks[0].exit
    assert ended
    assert (ended.code, ended.cause) == (4, ExitCause.USER_ERROR)


@pytest.mark.usefixtures("executor")
async def test_it_presents_itself_and_is_alive(scheduler: Commander) -> None:
    async with asyncio.timeout(GENEROUS_S):
        async with scheduler.bus.read(NODES_STREAM, EXECUTOR(node="n2")) as reader:
            info = decode((await anext(reader)).payload, ExecutorInfo)
        async with scheduler.bus.subscribe(BEAT(node="n1")) as beats:
            assert decode((await anext(beats)).payload, Beat).node == "n1"
    assert (info.node, info.runtime, info.address) == ("n2", "process", "127.0.0.1")


async def test_nothing_is_left_behind(executor: ExecutorProcess, scheduler: Commander) -> None:
    await scheduler.give(shell("tidy", "echo x"))
    await printed(scheduler, "tidy")
    home = executor.home / "n1"
    async with asyncio.timeout(GENEROUS_S):
        while any([*home.glob("ranks/tidy*"), *home.glob("orders/tidy*"), *home.glob("shipped/tidy*")]):
            await asyncio.sleep(0.02)
    assert not (home / "work" / "tidy.1").exists()


async def test_a_second_executor_for_the_same_directory_is_refused(
    executor: ExecutorProcess, server: NatsServer, scheduler: Commander
) -> None:
    await scheduler.give(stop("waiting-for-the-first-to-be-there"))
    await scheduler.fact("waiting-for-the-first-to-be-there", released)
    second = ExecutorProcess(executor.home, server.url, "n1", "n2")
    second.start()
    assert second.wait() == 5
    assert "another executor works in" in second.log
