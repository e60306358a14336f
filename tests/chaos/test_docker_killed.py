"""Executors, engines and keepers killed while containers print: nothing is lost, nothing runs twice."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause, TaskSpec
from gpuyard.contracts.log import lines_of
from gpuyard_executor.core.rank import ERR, OUT, RankKey
from gpuyard_executor.rank_directory import RankDirectory
from gpuyard_executor.supervisor.processes import all_pids
from tests.docker.daemon import Daemon, Unusable, running
from tests.docker.images import BUSYBOX, make_busybox
from tests.docker.rig import Rig, rig_at
from tests.integration.executors import ExecutorProcess, commander, released
from tests.natsd import NatsServer
from tests.unit.executor.orders import prepare

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

ROUNDS, LINES = 15, 150_000
_TALK = f"""
mkdir ran || exit 99  # a second run of the rank would fail here
for round in $(seq 0 {ROUNDS - 1}); do
    until [ -e go-$round ]; do sleep 0.01; done
    awk -v from=$((round * {LINES // ROUNDS})) -v count={LINES // ROUNDS} 'BEGIN {{
        for (i = from; i < from + count; i++)
            if (i % 10 == 3) printf "%0100d\\n", i > "/dev/stderr"; else printf "%0100d\\n", i
    }}'
done
exit 42
"""
_STEADY = """
awk 'BEGIN {
    for (i = 0; i < 400000; i++) { printf "%0100d\\n", i; if (i % 2000 == 0) system("sleep 0.01") }
}'
"""


@pytest.fixture
def fragile() -> Iterator[Daemon]:
    """An engine without live-restore."""
    try:
        with running(live_restore=False) as daemon:
            client = daemon.client()
            make_busybox(client)
            client.close()
            yield daemon
    except Unusable as error:
        pytest.skip(f"no Docker engine: {error}")


def executor_on(dockerd: Daemon, home: Path, server: NatsServer) -> ExecutorProcess:
    settings = {"RUNTIME": "docker", "DOCKER_URL": dockerd.url, "DOCKER_IMAGE": BUSYBOX}
    environment = {f"GPUYARD_EXECUTOR__{name}": value for name, value in settings.items()}
    return ExecutorProcess(home, server.url, "n1", **environment)


async def test_executor_killed_while_a_container_prints(dockerd: Daemon, tmp_path: Path) -> None:
    with NatsServer(tmp_path / "natsd", durable=False) as server:
        executor = executor_on(dockerd, tmp_path / "executor", server)
        executor.start()
        async with commander(server) as scheduler:
            await scheduler.give(prepare("talk", tasks=(TaskSpec(("sh", "-c", _TALK)),)))
            await scheduler.fact("talk", lambda fact: fact.ranks[0].state is RankState.RUNNING)
            for number in range(ROUNDS):
                (tmp_path / "executor" / "n1" / "work" / "talk.1" / f"go-{number}").touch()
                await scheduler.batch("talk", 1, 0, after_seq=number * LINES // ROUNDS)
                executor.kill()
                executor.start()
            batches = await scheduler.output("talk", 1, 0)
            fact = await scheduler.fact("talk", released)
        executor.kill()
    lines = [line for batch in batches for line in lines_of(batch)]
    assert [line.seq for line in lines] == list(range(LINES))
    for stream in (OUT, ERR):
        printed = [int(line.text) for line in lines if line.stream == stream]
        assert printed == [number for number in range(LINES) if (number % 10 == 3) == bool(stream)]
    assert fact.ranks[0].exit
    assert fact.ranks[0].exit.code == 42, executor.log


async def printed_lines(rig: Rig, key: RankKey) -> list[int]:
    return [int(line) for line in (await rig.output(key)).split()]


async def until_printed(rig: Rig, key: RankKey, count: int) -> None:
    """Wait until so many bytes are there."""
    size = 0
    async for page in rig.engine.output(key):
        size += sum(len(chunk.data) for chunk in page)
        if size >= count:
            return


async def test_engine_killed_while_a_container_prints(dockerd: Daemon, tmp_path: Path) -> None:
    async with rig_at(dockerd, tmp_path / "node") as rig:
        key = await rig.run("sh", "-c", _STEADY)
        for number in range(3):
            await until_printed(rig, key, (number + 1) * 5_000_000)
            dockerd.kill()
            await until_printed(rig, key, (number + 1) * 5_000_000 + 2_000_000)
            dockerd.start()
        end = (await rig.end(key)).end
        assert end
        assert (end.code, end.cause) == (0, None)
        assert await printed_lines(rig, key) == list(range(400_000))


async def test_engine_away_from_the_first_start_to_the_end(dockerd: Daemon, tmp_path: Path) -> None:
    """The rank ends, and a new executor starts, while there is no engine to ask."""
    async with rig_at(dockerd, tmp_path / "node") as rig:
        key = await rig.run("sh", "-c", "echo up; sleep 1; echo done; exit 4")
        await rig.until_prints(key)
        await rig.status(key, RankState.RUNNING)
    dockerd.kill()
    async with rig_at(dockerd, tmp_path / "node") as rig:
        late = await rig.prepare("sh", "-c", "echo late")
        assert [status.state for status in await rig.engine.list()] == [
            RankState.RUNNING,
            RankState.PREPARING,
        ]
        dockerd.start()
        end = (await rig.end(key)).end
        assert end
        assert (end.code, await rig.output(key)) == (4, b"up\ndone\n"), end
        await rig.status(late, RankState.READY)
        await rig.engine.start(late, {})
        assert await rig.output(late) == b"late\n"
        await rig.end(late)


async def test_keeper_killed_while_a_container_prints(dockerd: Daemon, tmp_path: Path) -> None:
    """At most what it held in its hands is lost; the program goes on, and so does its output."""
    async with rig_at(dockerd, tmp_path / "node") as rig:
        key = await rig.run("sh", "-c", _STEADY)
        for number in range(3):
            await until_printed(rig, key, (number + 1) * 8_000_000)
            os.kill(keeper_of(tmp_path / "node" / "ranks" / str(key)), signal.SIGKILL)
        end = (await rig.end(key)).end
        assert end
        assert end.code == 0
        printed = (await rig.output(key)).splitlines()
        assert len(printed) > 400_000 - 3 * 1000
        assert int(printed[-1]) == 399_999


def keeper_of(directory: Path) -> int:
    """The process that holds the rank's record."""
    record = (directory / "rank").stat()
    for pid in all_pids():
        try:
            for fd in Path(f"/proc/{pid}/fd").iterdir():
                found = fd.stat()
                if (found.st_dev, found.st_ino) == (record.st_dev, record.st_ino) and pid != os.getpid():
                    return pid
        except OSError:
            continue
    raise AssertionError("it has no keeper")


async def test_without_live_restore_a_rank_goes_down_with_its_engine(fragile: Daemon, tmp_path: Path) -> None:
    async with rig_at(fragile, tmp_path / "node") as rig:
        key = await rig.run("sleep", "1000")
        await rig.status(key, RankState.RUNNING)
        fragile.kill()
        await asyncio.to_thread(fragile.start)
        end = (await rig.end(key)).end
        assert end
        assert end.cause is ExitCause.NODE_LOST
        assert "engine stopped" in end.message


async def test_engine_killed_while_it_starts_a_container(dockerd: Daemon, tmp_path: Path) -> None:
    """After its return it may hold the container for not started: what runs of it is killed."""
    async with rig_at(dockerd, tmp_path / "node") as rig:
        for _ in range(4):
            key = await rig.run("sh", "-c", "mkdir ran || exit 99; echo up; sleep 1000")
            await rig.until_prints(key)
            dockerd.kill()
            await asyncio.to_thread(dockerd.start)
            status = await rig.status(key, RankState.RUNNING, RankState.EXITED)
            await rig.engine.stop(key, 0.0)
            end = (await rig.end(key)).end
            assert end
            assert end.code != 99
            if status.state is RankState.EXITED:
                assert end.cause is ExitCause.NODE_LOST
            assert not [pid for pid in all_pids() if is_below(pid, tmp_path)]


def is_below(pid: int, directory: Path) -> bool:
    """Whether a process has its output in a directory."""
    try:
        return any(str(directory) in str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir()) and (
            pid != os.getpid()
        )
    except OSError:
        return False


async def test_without_live_restore_gpu_work_is_refused(fragile: Daemon, tmp_path: Path) -> None:
    async with rig_at(fragile, tmp_path / "node") as rig:
        end = (await rig.end(await rig.prepare("true", gpus=("GPU-1",)))).end
        assert end
        assert end.cause is ExitCause.LAUNCH
        assert '"live-restore": true' in end.message
        assert await rig.text("echo", "fine") == "fine\n"


async def test_a_rank_that_was_lost_with_its_record_is_a_stray(dockerd: Daemon, tmp_path: Path) -> None:
    async with rig_at(dockerd, tmp_path / "node") as rig:
        key = await rig.run("sleep", "1000")
        await rig.status(key, RankState.RUNNING)
    RankDirectory(tmp_path / "node" / "ranks" / str(key)).record_path.unlink()
    client = dockerd.client()
    async with rig_at(dockerd, tmp_path / "node") as rig:
        while client.containers(filters={"label": f"gpuyard.home={tmp_path / 'node'}"}):
            await asyncio.sleep(0.02)
        assert await rig.engine.list() == []
    client.close()
