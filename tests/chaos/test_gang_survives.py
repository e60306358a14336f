"""kill -9 of any part at any moment of a running gang: it ends well, once, with every line."""

import asyncio
import sys
from pathlib import Path

import pytest

from gpuyard import JobSpec, JobState, TaskSpec
from tests.realyard import GENEROUS_S, lines_by_rank, real_yard

LINES = 100_000
_PROGRAM = """
import os, sys, time
rank, place = os.environ["RANK"], sys.argv[1]
os.close(os.open(f"{place}/{rank}", os.O_CREAT | os.O_EXCL))   # a second run of the rank would fail here
for first in range(0, LINES, 1000):
    for number in range(first, first + 1000):
        print(rank, number)
    print("half" if first % 2000 else "full", file=sys.stderr)
    sys.stdout.flush()
    if first == LINES // 2:
        open(f"{place}/halfway-{rank}", "w").close()
        while not os.path.exists(f"{place}/go"):
            time.sleep(0.01)
""".replace("LINES", str(LINES))

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


@pytest.mark.parametrize("victim", ["monitor", "scheduler", "executor", "logger", "nats-server"])
async def test_killed_while_a_gang_runs(tmp_path: Path, victim: str) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    command = (sys.executable, "-c", _PROGRAM, str(marks))
    with real_yard(tmp_path / "yard", "azure-ndv2-v100-8gpu") as yard:
        async with yard.client(timeout_s=60) as client:
            job = await client.submit(JobSpec((TaskSpec(command, gpus=2),), name="lines"))
            await yard.kill_9(victim)
            while not all((marks / f"halfway-{rank}").exists() for rank in range(2)):
                assert not (await client.get(job)).state.is_final
                await asyncio.sleep(0.02)
            await yard.kill_9(victim)
            (marks / "go").touch()
            await yard.kill_9(victim)
            job = await client.wait(job, timeout_s=GENEROUS_S)
            lines = await asyncio.wait_for(lines_by_rank(client, job.id), GENEROUS_S)
    assert job.state is JobState.SUCCEEDED, job
    assert job.attempt == 1
    assert sorted(lines) == [0, 1]
    for rank, of_rank in lines.items():
        assert [line.seq for line in of_rank] == list(range(LINES + LINES // 1000))
        printed = [line.text.decode() for line in of_rank if line.stream == 0]
        assert printed == [f"{rank} {number}" for number in range(LINES)]


async def test_everything_killed_at_once(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    command = (sys.executable, "-c", _PROGRAM, str(marks))
    with real_yard(tmp_path / "yard", "azure-ndv2-v100-8gpu") as yard:
        async with yard.client(timeout_s=60) as client:
            job = await client.submit(JobSpec((TaskSpec(command, gpus=2),), name="lines"))
            while not (marks / "halfway-0").exists():
                await asyncio.sleep(0.02)
        await asyncio.gather(*(yard.kill_9(name) for name in yard.file.services))
        (marks / "go").touch()
        async with yard.client(timeout_s=60) as client:
            job = await client.wait(job, timeout_s=GENEROUS_S)
            lines = await asyncio.wait_for(lines_by_rank(client, job.id), GENEROUS_S)
    assert job.state is JobState.SUCCEEDED, job
    assert [len(lines[rank]) for rank in (0, 1)] == [LINES + LINES // 1000] * 2
