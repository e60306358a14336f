"""kill -9 of the executor, again and again: every byte once, in order, nothing run twice."""

import sys
from pathlib import Path

import pytest

from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import TaskSpec
from gpuyard.contracts.log import lines_of
from tests.integration.executors import ExecutorProcess, commander, released
from tests.natsd import NatsServer
from tests.unit.executor.orders import prepare

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

ROUNDS, LINES = 10, 200_000
_PROGRAM = f"""
import os, sys, time
os.close(os.open("ran", os.O_CREAT | os.O_EXCL))  # a second run of the rank would fail here
for round in range({ROUNDS}):
    while not os.path.exists(f"{{sys.argv[1]}}/go-{{round}}"):
        time.sleep(0.005)
    for number in range(round * {LINES // ROUNDS}, (round + 1) * {LINES // ROUNDS}):
        print(f"{{number:100}}", file=sys.stderr if number % 10 == 3 else sys.stdout, flush=number % 7 == 0)
    sys.stdout.flush()
sys.exit(42)
"""


async def test_killed_while_a_rank_prints(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "natsd") as server:
        executor = ExecutorProcess(tmp_path / "executor", server.url, "n1")
        executor.start()
        async with commander(server) as scheduler:
            program = TaskSpec((sys.executable, "-c", _PROGRAM, str(tmp_path)))
            await scheduler.give(prepare("talk", tasks=(program,)))
            await scheduler.fact("talk", lambda fact: fact.ranks[0].state is RankState.RUNNING)
            for number in range(ROUNDS):
                (tmp_path / f"go-{number}").touch()
                await scheduler.batch("talk", 1, 0, after_seq=number * LINES // ROUNDS)
                executor.kill()
                executor.start()
            batches = await scheduler.output("talk", 1, 0)
            fact = await scheduler.fact("talk", released)
        executor.kill()
    lines = [line for batch in batches for line in lines_of(batch)]
    assert [line.seq for line in lines] == list(range(LINES))
    for stream in (0, 1):
        printed = [int(line.text) for line in lines if line.stream == stream]
        assert printed == [number for number in range(LINES) if (number % 10 == 3) == bool(stream)]
    assert fact.ranks[0].exit
    assert fact.ranks[0].exit.code == 42


MOMENTS = (
    "orders/JOB.1.prepare",
    "work/JOB.1",
    "ranks/JOB.1.0",
    "ranks/JOB.1.0/rank",
    "ranks/JOB.1.0/control",
    "ranks/JOB.1.0/out.00000000000000000000",
    "shipped/JOB.1.0",
)


async def test_killed_at_every_step(tmp_path: Path) -> None:
    """Recorded, prepared, started, ended, shipped: nothing is lost, nothing runs twice."""
    with NatsServer(tmp_path / "natsd") as server:
        executor = ExecutorProcess(tmp_path / "executor", server.url, "n1")
        executor.start()
        async with commander(server) as scheduler:
            for number, moment in enumerate(MOMENTS):
                job, ran = f"job{number}", tmp_path / f"ran-{number}"
                task = TaskSpec(("sh", "-c", f"set -C; echo once > {ran} && echo ran && exit 7"))
                await scheduler.give(prepare(job, tasks=(task,)))
                executor.kill_at(moment.replace("JOB", job))
                executor.start()
                fact = await scheduler.fact(job, released)
                assert fact.ranks[0].exit
                assert fact.ranks[0].exit.code == 7, fact
                assert (await scheduler.output(job, 1, 0))[-1].end
        executor.kill()
