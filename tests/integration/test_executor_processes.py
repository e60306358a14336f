"""Ranks as real processes: what they see, how they fail to start, what is left of them."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from gpuyard.contracts.errors import Conflict
from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.rank import ERR, OUT, RankEnd, RankKey, RankPlan
from gpuyard_executor.engine import OutputChunk
from gpuyard_executor.process_engine import ProcessEngine
from gpuyard_executor.rank_directory import Limits
from gpuyard_executor.spawner_handle import SpawnerHandle
from gpuyard_executor.supervised_rank import SupervisedRank
from gpuyard_executor.supervisor import files
from tests.contract.test_engine import read, text, until

_keys = count(1)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[ProcessEngine]:
    spawner = SpawnerHandle()
    async with ProcessEngine(tmp_path / "node", spawner, Limits(65_536, 262_144)) as engine:
        yield engine
    spawner.close()


async def run(engine: ProcessEngine, *command: str, cwd: str = "/", path: str | None = None) -> RankKey:
    key = RankKey("job", next(_keys), 0)
    await engine.prepare(RankPlan(key, command, cwd))
    await engine.start(key, {"PATH": path or os.environ["PATH"], "WORD": "bl\udcffck"})
    return key


async def end(engine: ProcessEngine, key: RankKey) -> RankEnd:
    status = await until(engine, key, RankState.EXITED)
    assert status.end
    return status.end


async def printed(engine: ProcessEngine, *command: str) -> tuple[bytes, bytes]:
    chunks = await read(engine, await run(engine, *command))
    return text(chunks, OUT), text(chunks, ERR)


async def test_a_rank_sees_its_environment_and_nothing_else(engine: ProcessEngine) -> None:
    out, _ = await printed(engine, "env", "-0")
    names = {line.partition(b"=")[0] for line in out.split(b"\0") if line}
    assert names == {b"PATH", b"WORD", b"GPUYARD_RANK_DIR"}
    assert b"WORD=bl\xffck" in out.split(b"\0"), "bytes that are no text go through"


async def test_a_rank_has_three_descriptors_and_an_empty_input(engine: ProcessEngine) -> None:
    out, _ = await printed(engine, "sh", "-c", "cat; ls /proc/$$/fd")
    assert out.split() == [b"0", b"1", b"2"]


async def test_a_rank_has_the_signals_of_a_fresh_program(engine: ProcessEngine) -> None:
    script = "grep -E 'Sig(Blk|Ign)' /proc/self/status"
    out, _ = await printed(engine, "sh", "-c", script)
    assert [int(line.split()[1], 16) & 0x7FFFFFFF for line in out.splitlines()] == [0, 0]


async def test_a_rank_leads_its_own_session(engine: ProcessEngine) -> None:
    out, _ = await printed(engine, "sh", "-c", "cut -d' ' -f1,5,6 /proc/$$/stat")
    pid, group, session = out.split()
    assert pid == group == session


@pytest.mark.parametrize(
    ("command", "cwd", "code", "words"),
    [
        (("no-such-program",), "/", 127, "was not found"),
        ((__file__,), "/", 126, "chmod +x"),
        (("true",), "/no/such/place", 126, "`/no/such/place` can't be entered"),
        (("true", "x" * 3_000_000), "/", 126, "too long"),
        (("/",), "/", 126, "may not be executed"),
    ],
)
async def test_why_a_command_does_not_start(
    engine: ProcessEngine, command: tuple[str, ...], cwd: str, code: int, words: str
) -> None:
    ended = await end(engine, await run(engine, *command, cwd=cwd))
    assert (ended.code, ended.cause) == (code, ExitCause.LAUNCH)
    assert words in ended.message


async def test_a_script_without_interpreter_line(engine: ProcessEngine, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo hello")
    script.chmod(0o755)
    ended = await end(engine, await run(engine, str(script)))
    assert (ended.code, ended.cause) == (126, ExitCause.LAUNCH)
    assert "#!/bin/sh" in ended.message


async def test_a_command_is_looked_for_in_the_path_of_the_rank(engine: ProcessEngine, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "mine"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    assert text(await read(engine, await run(engine, "mine", path=str(program.parent)))) == b"found\n"


async def test_a_program_ended_by_a_signal(engine: ProcessEngine) -> None:
    ended = await end(engine, await run(engine, "sh", "-c", "kill -SEGV $$"))
    assert (ended.code, ended.stopped) == (128 + signal.SIGSEGV, False)


async def test_much_output_makes_the_program_wait_until_some_is_shipped(engine: ProcessEngine) -> None:
    script = (
        'i=0; while [ $i -lt 30000 ]; do echo "line $i of a program that talks and talks"; i=$((i+1)); done'
    )
    key = await run(engine, "sh", "-c", script)
    directory = engine.directory(key)
    taken: list[OutputChunk] = []
    largest = 0
    async for page in engine.output(key):
        taken += page
        largest = max(largest, sum(path.stat().st_size for path in directory.glob("out.*")))
        await engine.remove(key, output_before=page[-1].next_offset)
    assert text(taken) == b"".join(b"line %d of a program that talks and talks\n" % i for i in range(30000))
    assert largest <= 262_144 + 2 * 65_536
    assert len(list(directory.glob("out.*"))) <= 2, "what is shipped is deleted"


async def test_a_directory_serves_one_executor(engine: ProcessEngine, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="another executor"):
        async with ProcessEngine(tmp_path / "node", SpawnerHandle()):
            pass


async def test_a_rank_that_was_never_supervised_is_prepared_anew(tmp_path: Path) -> None:
    """The executor was killed after it wrote the plan and before the supervisor came."""
    key = RankKey("job", 1, 0)
    spawner = SpawnerHandle()
    half_made = tmp_path / "node" / "ranks" / str(key)
    half_made.mkdir(parents=True)
    (half_made / "rank").write_text('{"command": ["tr')
    async with ProcessEngine(tmp_path / "node", spawner) as engine:
        assert list(await engine.list()) == []
        await engine.prepare(RankPlan(key, ("true",), "/"))
        await engine.start(key, {"PATH": os.environ["PATH"]})
        assert (await end(engine, key)).code == 0
    spawner.close()


async def test_no_room_to_prepare_is_a_failed_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("gpuyard_executor.rank_directory.render_plan", no_room)
    async with ProcessEngine(tmp_path / "node", SpawnerHandle()) as engine:
        key = RankKey("job", 1, 0)
        await engine.prepare(RankPlan(key, ("true",), "/"))
        ended = await end(engine, key)
        assert (ended.cause, ended.code) == (ExitCause.LAUNCH, None)
        assert "No space left" in ended.message
        assert await read(engine, key) == []
        await engine.remove(key)
        assert list((tmp_path / "node" / "ranks").iterdir()) == []


async def test_an_end_that_can_not_be_written_is_told_all_the_same(
    engine: ProcessEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor is killed while the disk is full."""
    key = await run(engine, "sleep", "1000")
    await until(engine, key, RankState.RUNNING)
    record = engine.directory(key) / "rank"
    room, write_all = asyncio.Event(), files.write_all

    def no_room(fd: int, data: bytes) -> None:
        if not room.is_set():
            raise OSError(28, "No space left on device")
        write_all(fd, data)

    monkeypatch.setattr("gpuyard_executor.rank_directory.write_all", no_room)
    os.kill(supervisor_of(record), signal.SIGKILL)
    assert (await end(engine, key)).cause is ExitCause.UNKNOWN
    room.set()
    while b"lost" not in record.read_bytes():
        await asyncio.sleep(0.01)


async def test_nobody_waits_for_a_supervisor_that_is_gone(
    engine: ProcessEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it left can't be killed yet: the rank still runs, and the stop is none of the node's business."""
    may_end = asyncio.Event()

    async def unkillable(*_: object) -> None:
        await may_end.wait()

    monkeypatch.setattr("gpuyard_executor.supervised_rank.kill_leftovers", unkillable)
    key = await run(engine, "sleep", "1000")
    await until(engine, key, RankState.RUNNING)
    os.kill(supervisor_of(engine.directory(key) / "rank"), signal.SIGKILL)
    while engine._ranks[key].link.is_up:
        await asyncio.sleep(0.001)
    async with asyncio.timeout(30.0):
        await engine.stop(key, 0.0)
    may_end.set()
    assert (await end(engine, key)).cause is ExitCause.UNKNOWN


async def test_a_rank_is_followed_again_whatever_fails(
    engine: ProcessEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow, failures = SupervisedRank.follow, [OSError(5, "Input/output error")]

    async def failing(rank: SupervisedRank) -> None:
        if failures:
            raise failures.pop()
        await follow(rank)

    monkeypatch.setattr(SupervisedRank, "follow", failing)
    assert (await end(engine, await run(engine, "true"))).code == 0


def supervisor_of(record: Path) -> int:
    """Parent of the rank's first process."""
    pid = record.read_bytes().split(b"\n")[1].decode()
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
