import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from gpuyard.cli import session
from gpuyard.cli.run import run
from gpuyard.client import output
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.job import Exit, ExitCause, Job, JobState
from gpuyard.contracts.log import ERR
from tests.unit.cli.conftest import Prepare, Shell
from tests.unit.client.fake_yard import FakeYard, Script, fake_yard


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def succeed(yard: FakeYard, job: Job) -> None:
    await yard.add_node()
    job = await yard.start(job)
    for rank in range(job.spec.rank_count):
        await yard.print_lines(job, rank, f"hello from {rank}")
        await yard.print_lines(job, rank, "a warning", first=1, stream=ERR, end=True)
    await yard.end(job)


def ending(state: JobState, exit_: Exit) -> Script:
    async def script(yard: FakeYard, job: Job) -> None:
        job = await yard.start(job)
        for rank in range(job.spec.rank_count):
            await yard.print_lines(job, rank, end=True)
        await yard.end(job, state, exit_)

    return script


def playing(script: Script) -> Prepare:
    async def prepare(yard: FakeYard) -> None:
        yard.script = script

    return prepare


def test_one_rank_prints_as_if_it_ran_here(shell: Shell) -> None:
    result = shell("run", "--", "python", "train.py", prepare=playing(succeed))
    assert result.code == 0
    assert result.out == "hello from 0\n"
    assert "a warning\n" in result.err


def test_phases_are_plain_lines_without_a_terminal(shell: Shell) -> None:
    result = shell("run", "--gpus", "2", "--", "python", "train.py", prepare=playing(succeed))
    phases = [line for line in result.err.splitlines() if not line.startswith("[")]
    expected = [
        "queued: waits for 2 free GPUs",
        "starting: on node dgx1-1: GPU 0, 3 (NV2 48 GB/s)",
        "running: 2 ranks, attempt 1",
        "succeeded: ran 4.0 s",
    ]
    assert phases
    assert phases == expected[-len(phases) :], "only phases that passed before the first look are not shown"
    assert "\x1b" not in result.err


def test_several_ranks_are_told_apart(shell: Shell) -> None:
    result = shell("run", "--ranks", "2", "--", "python", "train.py", prepare=playing(succeed))
    assert sorted(result.out.splitlines()) == ["[0] hello from 0", "[1] hello from 1"]


@pytest.mark.parametrize(
    ("state", "exit_", "code"),
    [
        (JobState.FAILED, Exit(3, ExitCause.USER_ERROR, "it raised", 0), 3),
        (JobState.FAILED, Exit(137, ExitCause.OOM, "no memory", 0), 137),
        (JobState.FAILED, Exit(None, ExitCause.NODE_LOST), 1),
        (JobState.FAILED, Exit(0, ExitCause.UNKNOWN), 1),
        (JobState.CANCELLED, Exit(None, ExitCause.CANCELLED, "cancelled on request"), 1),
        (JobState.SUCCEEDED, Exit(0), 0),
    ],
)
def test_run_exits_with_the_jobs_code(shell: Shell, state: JobState, exit_: Exit, code: int) -> None:
    result = shell("run", "--", "python", "train.py", prepare=playing(ending(state, exit_)))
    assert result.code == code
    assert f"{state}: " in result.err
    assert exit_.message in result.err


def test_json_lines_tell_changes_and_output_apart(shell: Shell) -> None:
    lines = shell("run", "--json", "--", "a", prepare=playing(succeed)).json_lines
    assert [line["text"] for line in lines if line["type"] == "log"] == ["hello from 0", "a warning"]
    assert [line["stream"] for line in lines if line["type"] == "log"] == ["out", "err"]
    jobs = [line for line in lines if line["type"] == "job"]
    assert jobs[-1]["state"] == "succeeded"
    assert lines[-1] == jobs[-1]


def test_a_failed_launch_is_followed_into_the_next(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "NEVER_RAN_QUIET_S", 0.02)

    async def second_time(yard: FakeYard, job: Job) -> None:
        await succeed(yard, await yard.requeue(await yard.place(job)))

    result = shell("run", "--", "a", prepare=playing(second_time))
    assert (result.code, result.out) == (0, "hello from 0\n")


async def test_leaving_says_how_to_come_back_and_the_job_goes_on(
    shell: Shell, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C arrives as a cancellation of the command."""
    running = asyncio.Event()

    async def never_ending(yard: FakeYard, job: Job) -> None:
        await yard.start(job)
        running.set()

    async with fake_yard() as yard:
        yard.script = never_ending

        def connect(_: str | None) -> AbstractAsyncContextManager[AsyncClient]:
            return AsyncClient(bus=yard.bus)

        with session.connecting(connect):
            task = asyncio.create_task(run("python", "train.py", yard_dir="my yard"))
            await running.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        (job,) = yard.jobs.values()
    assert job.state is JobState.RUNNING
    err = capfd.readouterr().err
    assert f"gpuyard logs -f {job.id} --dir 'my yard'" in err
    assert f"gpuyard cancel {job.id} --dir 'my yard'" in err


def test_losing_the_yard_says_how_to_come_back(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise Unavailable("the bus is gone")

    monkeypatch.setattr("gpuyard.cli.run._follow", broken)
    result = shell("run", "--", "a")
    assert result.code == 6
    assert "Come back with `gpuyard logs -f" in result.err
    assert "error: the bus is gone" in result.err
