"""Supervisors, executors and disks that fail while a rank runs."""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

import pytest

from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.rank import RankKey, RankPlan
from gpuyard_executor.process_engine import ProcessEngine
from gpuyard_executor.rank_directory import Limits
from gpuyard_executor.spawner_handle import SpawnerHandle
from gpuyard_executor.supervisor.processes import all_pids, stat_of
from tests.contract.test_engine import GENEROUS_S, read, text, until

pytestmark = pytest.mark.chaos

_keys = count(1)
_DAEMON = """
import os, signal, sys, time
print(os.getpid(), flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print(os.getpid(), flush=True)
        time.sleep(1000)
    os._exit(0)
os.wait()
while sys.argv[1] == "stay":
    time.sleep(1000)
"""


@asynccontextmanager
async def engine_at(home: Path, limits: Limits = Limits()) -> AsyncIterator[ProcessEngine]:  # noqa: B008 - frozen
    spawner = SpawnerHandle()
    async with ProcessEngine(home, spawner, limits) as engine:
        yield engine
    spawner.close()


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ProcessEngine]:
    async with engine_at(tmp_path / "node") as engine:
        yield engine


async def run(engine: ProcessEngine, *command: str, cwd: str = "/") -> RankKey:
    key = RankKey("job", next(_keys), 0)
    await engine.prepare(RankPlan(key, command, cwd))
    await engine.start(key, {"PATH": os.environ["PATH"]})
    return key


async def lines(engine: ProcessEngine, key: RankKey, wanted: int) -> list[bytes]:
    """Wait for the rank's first lines."""
    async with asyncio.timeout(GENEROUS_S):
        found = b""
        pages = engine.output(key)
        async for page in pages:
            found += text(page)
            if found.count(b"\n") >= wanted:
                break
        await pages.aclose()
    return found.splitlines()


def is_alive(pid: int) -> bool:
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX"


def supervisor_of(pid: int) -> int:
    stat = stat_of(pid)
    assert stat
    return int(stat[1])


@pytest.mark.parametrize("manner", ["leave", "stay"])
async def test_a_grandchild_that_went_into_hiding_ends_with_its_rank(
    engine: ProcessEngine, manner: str
) -> None:
    key = await run(engine, sys.executable, "-c", _DAEMON, manner)
    pids = [int(line) for line in await lines(engine, key, 2)]
    if manner == "stay":
        assert all(map(is_alive, pids))
        await engine.stop(key, 0.2)
    await until(engine, key, RankState.EXITED)
    assert not any(map(is_alive, pids))


async def test_a_killed_supervisor_takes_its_rank_along(engine: ProcessEngine) -> None:
    key = await run(engine, sys.executable, "-c", _DAEMON, "stay")
    pids = [int(line) for line in await lines(engine, key, 2)]
    os.kill(supervisor_of(pids[0]), signal.SIGKILL)
    status = await until(engine, key, RankState.EXITED)
    assert status.end
    assert (status.end.code, status.end.cause) == (None, ExitCause.UNKNOWN)
    assert "supervisor was killed" in status.end.message
    assert not any(map(is_alive, pids)), "not even the one that had left its session"
    assert len(text(await read(engine, key)).splitlines()) == 2


async def test_a_supervisor_killed_while_the_executor_is_away(tmp_path: Path) -> None:
    async with engine_at(tmp_path) as engine:
        key = await run(engine, sys.executable, "-c", _DAEMON, "stay")
        pids = [int(line) for line in await lines(engine, key, 2)]
    os.kill(supervisor_of(pids[0]), signal.SIGKILL)
    async with engine_at(tmp_path) as engine:
        status = await until(engine, key, RankState.EXITED)
        assert status.end
        assert status.end.cause is ExitCause.UNKNOWN
        assert not any(map(is_alive, pids))


async def test_a_restarted_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine_at(tmp_path) as engine:
        key = await run(engine, "sh", "-c", "echo $$; exec sleep 1000")
        (pid,) = [int(line) for line in await lines(engine, key, 1)]
    os.kill(supervisor_of(pid), signal.SIGKILL)
    monkeypatch.setattr("gpuyard_executor.supervised_rank.boot_id", lambda: "another boot")
    async with engine_at(tmp_path) as engine:
        status = await until(engine, key, RankState.EXITED)
        assert status.end
        assert (status.end.code, status.end.cause) == (None, ExitCause.NODE_LOST)


async def test_a_killed_supervisor_of_a_rank_that_had_not_started(engine: ProcessEngine) -> None:
    key = RankKey("job", next(_keys), 0)
    await engine.prepare(RankPlan(key, ("true",), "/"))
    await until(engine, key, RankState.READY)
    os.kill(_supervisor_in(engine.directory(key)), signal.SIGKILL)
    status = await until(engine, key, RankState.EXITED)
    assert status.end
    assert (status.end.code, status.end.cause) == (None, ExitCause.LAUNCH)


def _supervisor_in(directory: Path) -> int:
    """A supervisor works in the directory of its rank."""
    for pid in all_pids():
        with suppress(OSError):
            if Path(f"/proc/{pid}/cwd").readlink() == directory:
                return pid
    raise AssertionError(f"nobody works in {directory}")


async def test_a_stop_is_carried_out_while_the_executor_is_away(tmp_path: Path) -> None:
    async with engine_at(tmp_path) as engine:
        key = await run(engine, "sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.1; done")
        (pid,) = [int(line) for line in await lines(engine, key, 1)]
        await engine.stop(key, 0.5)
        directory = engine.directory(key)
    async with asyncio.timeout(GENEROUS_S):
        while b'"ended_at_s"' not in (directory / "rank").read_bytes():
            await asyncio.sleep(0.01)
    assert not is_alive(pid)
    async with engine_at(tmp_path) as engine:
        (status,) = await engine.list()
        assert status.end
        assert (status.end.code, status.end.stopped) == (137, True)


async def test_children_of_a_shell_get_the_whole_grace(engine: ProcessEngine, tmp_path: Path) -> None:
    """A shell dies of the signal at once; the training below it still saves its checkpoint."""
    child = "trap 'echo saved > saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    key = await run(engine, "sh", "-c", f'sh -c "{child}"; true', cwd=str(tmp_path))
    await lines(engine, key, 1)
    await engine.stop(key, GENEROUS_S)
    status = await until(engine, key, RankState.EXITED)
    assert status.end
    assert status.end.code == 143
    assert (tmp_path / "saved").read_text() == "saved\n"


async def test_the_supervisor_stops_its_rank_when_the_machine_shuts_down(engine: ProcessEngine) -> None:
    key = await run(engine, "sh", "-c", "echo $$; exec sleep 1000")
    (pid,) = [int(line) for line in await lines(engine, key, 1)]
    os.kill(supervisor_of(pid), signal.SIGTERM)
    status = await until(engine, key, RankState.EXITED)
    assert status.end
    assert (status.end.code, status.end.stopped) == (143, True)


async def test_a_killed_spawner_is_replaced(tmp_path: Path) -> None:
    spawner = SpawnerHandle()
    spawner.start()
    async with ProcessEngine(tmp_path, spawner) as engine:
        assert spawner.pid
        os.kill(spawner.pid, signal.SIGKILL)
        while is_alive(spawner.pid):
            await asyncio.sleep(0)
        status = await until(engine, await run(engine, "true"), RankState.EXITED)
        assert status.end
        assert status.end.code == 0
    spawner.close()


async def test_a_full_disk_loses_nothing(engine: ProcessEngine, tmp_path: Path) -> None:
    count_lines = "i=0; while [ $i -lt 20000 ]; do echo $i; i=$((i+1)); done"
    script = f"echo $$; while [ ! -e go ]; do sleep 0.01; done; {count_lines}; exit 5"
    key = await run(engine, "sh", "-c", script, cwd=str(tmp_path))
    (pid,) = [int(line) for line in await lines(engine, key, 1)]
    supervisor, spool = supervisor_of(pid), engine.directory(key) / "out.00000000000000000000"
    # A limit on the size of its files stops a supervisor's writes in the middle, as a full disk does.
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
    (tmp_path / "go").touch()
    async with asyncio.timeout(GENEROUS_S):
        while spool.stat().st_size < 30_000:
            await asyncio.sleep(0.01)
    assert is_alive(pid), "the program waits"
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    printed = text(await read(engine, key)).splitlines()[1:]
    status = await until(engine, key, RankState.EXITED)
    assert printed == [b"%d" % number for number in range(20_000)]
    assert status.end
    assert status.end.code == 5
