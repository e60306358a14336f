"""What every engine promises: containers, processes and memory pass the same suite."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest

from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.rank import ERR, OUT, RankKey, RankPlan, RankStatus
from gpuyard_executor.docker_runtime import DockerRuntime
from gpuyard_executor.engine import Engine, OutputChunk
from gpuyard_executor.memory_engine import MemoryEngine, Script
from gpuyard_executor.process_engine import ProcessEngine
from gpuyard_executor.spawner_handle import SpawnerHandle
from tests.docker.runtime import docker_runtime

GENEROUS_S = 60.0
SCRIPTS = {
    "print": Script(((OUT, b"one\ntwo\n"), (ERR, b"oops\n"))),
    "fail": Script(code=3),
    "forever": Script(((OUT, b"here\n"),), code=None),
    "stubborn": Script(((OUT, b"here\n"),), code=None, ignores_term=True),
}
COMMANDS = {
    "print": ("sh", "-c", "printf 'one\\ntwo\\n'; echo oops >&2"),
    "fail": ("sh", "-c", "exit 3"),
    "forever": ("sh", "-c", "echo here; exec sleep 1000"),
    "stubborn": ("sh", "-c", "trap '' TERM; echo here; while :; do sleep 0.1; done"),
    "missing": ("no-such-program",),
}
_keys = count(1)


class Rig(Protocol):
    """An engine, and a way to put another in its place, as a restart of the executor does."""

    engine: Engine

    def command(self, name: str) -> tuple[str, ...]: ...
    async def restart(self) -> None: ...


class MemoryRig:
    def __init__(self) -> None:
        self._first = MemoryEngine(SCRIPTS)
        self.engine: Engine = self._first

    def command(self, name: str) -> tuple[str, ...]:
        return (name,) if name in SCRIPTS else COMMANDS[name]

    async def restart(self) -> None:
        self.engine = MemoryEngine(SCRIPTS, self._first.world)


class ProcessRig:
    def __init__(self, home: Path, spawner: SpawnerHandle) -> None:
        self._home = home
        self._spawner = spawner
        self._stack = AsyncExitStack()

    async def open(self) -> None:
        self.engine: Engine = await self._stack.enter_async_context(ProcessEngine(self._home, self._spawner))

    async def close(self) -> None:
        await self._stack.aclose()

    def command(self, name: str) -> tuple[str, ...]:
        return COMMANDS[name]

    async def restart(self) -> None:
        await self.close()
        await self.open()


class DockerRig(ProcessRig):
    def __init__(self, home: Path, spawner: SpawnerHandle, runtime: DockerRuntime) -> None:
        super().__init__(home, spawner)
        self._runtime = runtime

    async def open(self) -> None:
        self.engine = await self._stack.enter_async_context(self._runtime.engine(self._home))


@pytest.fixture(params=["memory", "process", "docker"])
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    if request.param == "memory":
        yield MemoryRig()
        return
    with closing(SpawnerHandle()) as spawner:
        if request.param == "process":
            async with opened(ProcessRig(tmp_path / "node", spawner)) as process_rig:
                yield process_rig
            return
        with closing(docker_runtime(request.getfixturevalue("dockerd"), spawner)) as runtime:
            async with opened(DockerRig(tmp_path / "node", spawner, runtime)) as docker_rig:
                yield docker_rig


@asynccontextmanager
async def opened(rig: ProcessRig) -> AsyncIterator[ProcessRig]:
    """A rig that leaves no rank behind."""
    await rig.open()
    yield rig
    for status in await rig.engine.list():
        await rig.engine.stop(status.key, 0.0)
        await exited(rig, status.key)
    await rig.close()


def new_key() -> RankKey:
    return RankKey("job", next(_keys), 0)


async def until(engine: Engine, key: RankKey, state: RankState) -> RankStatus:
    """Wait for a rank to come to a state; also if it is there already."""
    async with asyncio.timeout(GENEROUS_S):
        for status in await engine.list():
            if status.key == key and status.state is state:
                return status
        async for status in engine.changes():
            if status.key == key and status.state is state:
                return status
    raise AssertionError("unreachable")


async def read(engine: Engine, key: RankKey, offset: int = 0) -> list[OutputChunk]:
    async with asyncio.timeout(GENEROUS_S):
        return [chunk async for page in engine.output(key, offset) for chunk in page]


async def first_output(engine: Engine, key: RankKey) -> Sequence[OutputChunk]:
    pages = engine.output(key)
    try:
        return await asyncio.wait_for(anext(pages), GENEROUS_S)
    finally:
        await pages.aclose()


def text(chunks: Sequence[OutputChunk], stream: int = OUT) -> bytes:
    return b"".join(chunk.data for chunk in chunks if chunk.stream == stream)


async def prepared(rig: Rig, name: str, key: RankKey | None = None) -> RankKey:
    key = key or new_key()
    await rig.engine.prepare(RankPlan(key, rig.command(name), "/tmp"))
    await until(rig.engine, key, RankState.READY)
    return key


async def started(rig: Rig, name: str, env: Mapping[str, str] | None = None) -> RankKey:
    key = await prepared(rig, name)
    await rig.engine.start(key, env or {"PATH": os.environ["PATH"]})
    return key


async def exited(rig: Rig, key: RankKey) -> RankStatus:
    return await until(rig.engine, key, RankState.EXITED)


async def test_a_rank_goes_through_its_states(rig: Rig) -> None:
    key = new_key()
    await rig.engine.list()
    changes = rig.engine.changes()
    await rig.engine.prepare(RankPlan(key, rig.command("print"), "/tmp"))
    seen = [await asyncio.wait_for(anext(changes), GENEROUS_S)]
    await rig.engine.start(key, {"PATH": os.environ["PATH"]})
    seen += [await asyncio.wait_for(anext(changes), GENEROUS_S) for _ in range(2)]
    assert [status.state for status in seen] == [RankState.READY, RankState.RUNNING, RankState.EXITED]
    end, started_at_s = seen[-1].end, seen[-1].started_at_s
    assert end
    assert (end.code, end.stopped, end.cause) == (0, False, None)
    assert started_at_s
    assert end.at_s
    assert started_at_s == seen[1].started_at_s
    assert end.at_s >= started_at_s


async def test_output_is_kept_apart_by_stream(rig: Rig) -> None:
    key = await started(rig, "print")
    chunks = await read(rig.engine, key)
    assert (text(chunks, OUT), text(chunks, ERR)) == (b"one\ntwo\n", b"oops\n")


async def test_output_can_be_read_on_from_anywhere(rig: Rig) -> None:
    key = await started(rig, "print")
    chunks = await read(rig.engine, key)
    for number, chunk in enumerate(chunks):
        assert await read(rig.engine, key, chunk.offset) == chunks[number:]
        assert await read(rig.engine, key, chunk.next_offset) == chunks[number + 1 :]


async def test_output_comes_while_the_rank_runs(rig: Rig) -> None:
    key = await started(rig, "forever")
    assert text(await first_output(rig.engine, key)) == b"here\n"


async def test_the_exit_code_is_kept(rig: Rig) -> None:
    end = (await exited(rig, await started(rig, "fail"))).end
    assert end
    assert (end.code, end.cause) == (3, None)


async def test_a_command_that_does_not_exist(rig: Rig) -> None:
    status = await exited(rig, await started(rig, "missing"))
    assert status.end
    assert (status.end.code, status.end.cause, status.started_at_s) == (127, ExitCause.LAUNCH, None)
    assert "`no-such-program` was not found" in status.end.message
    assert await read(rig.engine, status.key) == []


async def test_repeats_run_nothing_twice(rig: Rig) -> None:
    key = await started(rig, "print")
    await rig.engine.start(key, {"PATH": os.environ["PATH"]})
    await exited(rig, key)
    await rig.engine.prepare(RankPlan(key, rig.command("print"), "/tmp"))
    await rig.engine.start(key, {"PATH": os.environ["PATH"]})
    assert text(await read(rig.engine, key)) == b"one\ntwo\n"
    assert [status.key for status in await rig.engine.list()] == [key]


async def test_a_stop_ends_a_running_rank(rig: Rig) -> None:
    key = await started(rig, "forever")
    await first_output(rig.engine, key)
    await rig.engine.stop(key, GENEROUS_S)
    end = (await exited(rig, key)).end
    assert end
    assert (end.code, end.stopped) == (143, True)


async def test_a_rank_that_ignores_the_signal_is_killed_after_the_grace(rig: Rig) -> None:
    key = await started(rig, "stubborn")
    await first_output(rig.engine, key)
    await rig.engine.stop(key, 0.2)
    end = (await exited(rig, key)).end
    assert end
    assert (end.code, end.stopped) == (137, True)


async def test_the_earliest_deadline_holds(rig: Rig) -> None:
    key = await started(rig, "stubborn")
    await first_output(rig.engine, key)
    for grace_s in (1000.0, 0.1, 1000.0):
        await rig.engine.stop(key, grace_s)
    end = (await exited(rig, key)).end
    assert end
    assert end.code == 137


async def test_a_stopped_rank_never_starts(rig: Rig) -> None:
    key = await prepared(rig, "print")
    await rig.engine.stop(key, GENEROUS_S)
    status = await exited(rig, key)
    await rig.engine.start(key, {})
    assert status.end
    assert (status.end.code, status.end.stopped, status.started_at_s) == (None, True, None)
    assert await read(rig.engine, key) == []


async def test_a_stop_of_what_is_not_there_or_over_does_nothing(rig: Rig) -> None:
    await rig.engine.stop(RankKey("nobody", 1, 0), 0.0)
    status = await exited(rig, await started(rig, "fail"))
    await rig.engine.stop(status.key, 0.0)
    assert list(await rig.engine.list()) == [status]


async def test_a_rank_runs_on_while_the_executor_is_away(rig: Rig) -> None:
    key = await started(rig, "forever")
    before = await until(rig.engine, key, RankState.RUNNING)
    await first_output(rig.engine, key)
    await rig.restart()
    after = await until(rig.engine, key, RankState.RUNNING)
    assert before.started_at_s == pytest.approx(after.started_at_s, abs=1.0)
    assert text(await first_output(rig.engine, key)) == b"here\n"
    await rig.engine.stop(key, GENEROUS_S)
    assert (await exited(rig, key)).end


async def test_a_ready_rank_is_started_by_the_next_executor(rig: Rig) -> None:
    key = await prepared(rig, "print")
    await rig.restart()
    await rig.engine.start(key, {"PATH": os.environ["PATH"]})
    assert text(await read(rig.engine, key)) == b"one\ntwo\n"


async def test_what_ended_is_found_again_with_its_output(rig: Rig) -> None:
    status = await exited(rig, await started(rig, "print"))
    await rig.restart()
    assert list(await rig.engine.list()) == [status]
    assert text(await read(rig.engine, status.key)) == b"one\ntwo\n"


async def test_a_removed_rank_is_gone(rig: Rig) -> None:
    status = await exited(rig, await started(rig, "print"))
    for _ in range(2):
        await rig.engine.remove(status.key)
    assert list(await rig.engine.list()) == []
    await rig.restart()
    assert list(await rig.engine.list()) == []


async def test_forgotten_output_does_not_touch_what_follows(rig: Rig) -> None:
    key = await started(rig, "print")
    chunks = await read(rig.engine, key)
    await rig.engine.remove(key, output_before=chunks[0].next_offset)
    assert await read(rig.engine, key, chunks[0].next_offset) == chunks[1:]


async def test_changes_after_a_list_are_newer_than_the_list(rig: Rig) -> None:
    first = await exited(rig, await started(rig, "fail"))
    assert first in await rig.engine.list()
    second = await prepared(rig, "print")
    assert second != first.key
