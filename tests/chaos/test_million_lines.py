"""1,000,000 numbered lines from 8 ranks while logger, executor and nats-server are killed in turn."""

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest

from gpuyard import AsyncClient, JobSpec, JobState, TaskSpec
from gpuyard.bus.nats_bus import connect
from gpuyard.bus.port import Bus, From
from gpuyard.contracts.codec import decode
from gpuyard.contracts.segment import LINES as OF_LINES
from gpuyard.contracts.segment import Segment
from gpuyard.contracts.subjects import SEGMENT, SEGMENTS_STREAM
from tests.integration.logger_process import LoggerProcess
from tests.realyard import GENEROUS_S, RealYard, real_yard

RANKS = 8
PIECES = ("logger", "executor", "nats-server", "logger", "executor")
"""Who is killed while the ranks print a piece of their lines."""
LINES = 1_000_000 // RANKS // len(PIECES) * len(PIECES)
_PROGRAM = f"""
import os, pathlib, sys, time
rank, place = os.environ["RANK"], pathlib.Path(sys.argv[1])
for piece in range({len(PIECES)}):
    while not (place / f"go-{{piece}}").exists():
        time.sleep(0.01)
    for number in range(piece * {LINES // len(PIECES)}, (piece + 1) * {LINES // len(PIECES)}):
        print(rank, "step", number, "loss", number * 7919 % 1000003 / 1e6)
    sys.stdout.flush()
    (place / f"{{piece}}-{{rank}}").touch()
"""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(400)]


@asynccontextmanager
async def second_logger(yard: RealYard, folder: Path) -> AsyncIterator[LoggerProcess]:
    """Another logger for the yard, with a folder of its own."""
    logger = LoggerProcess(folder, yard.file.url, folder / "store", lease_s=3)
    await logger.start()
    try:
        yield logger
    finally:
        logger.kill()


async def print_and_kill(yard: RealYard, marks: Path, second: LoggerProcess | None) -> None:
    for piece, victim in enumerate(PIECES):
        (marks / f"go-{piece}").touch()
        if second is not None and victim == "logger":
            second.kill()
        await yard.kill_9(victim)
        while not all((marks / f"{piece}-{rank}").exists() for rank in range(RANKS)):
            await asyncio.sleep(0.02)
        if second is not None and victim == "logger":
            await second.start()


async def check(client: AsyncClient, job: str) -> None:
    """Every line once, those of a rank in order."""
    expected: Counter[int] = Counter()
    async for line in client.logs(job, follow=True):
        number = expected[line.rank]
        assert line.seq == number
        text = f"{line.rank} step {number} loss {number * 7919 % 1000003 / 1e6}"
        assert line.text.decode() == text
        expected[line.rank] += 1
    assert expected == dict.fromkeys(range(RANKS), LINES)


async def until_recorded(bus: Bus) -> None:
    """Wait until all lines are in sealed segments; each is in one."""
    async with asyncio.timeout(GENEROUS_S):
        while (count := await recorded(bus)) < RANKS * LINES:
            await asyncio.sleep(0.1)
    assert count == RANKS * LINES


async def recorded(bus: Bus) -> int:
    """How many lines are in sealed segments."""
    segments: dict[str, Segment] = {}
    async with bus.read(SEGMENTS_STREAM, SEGMENT.all, start=From.LAST_PER_SUBJECT) as reader:
        while reader.backlog:
            segment = decode((await anext(reader)).payload, Segment)
            segments[segment.id] = segment
    replaced = {name for segment in segments.values() for name in segment.replaces}
    rows = [row for name, segment in segments.items() if name not in replaced for row in segment.rows]
    return sum(row.next_seq - row.first_seq for row in rows if row.kind == OF_LINES)


@pytest.mark.parametrize("loggers", [1, 2])
async def test_each_line_is_stored_once_and_in_order(tmp_path: Path, loggers: int) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    command = (sys.executable, "-c", _PROGRAM, str(marks))
    with real_yard(tmp_path / "yard", "azure-ndv2-v100-8gpu") as yard:
        async with (
            yard.client(timeout_s=60) as client,
            connect(yard.file.url, "test") as bus,
            second_logger(yard, tmp_path) if loggers == 2 else nullcontext() as second,
        ):
            job = await client.submit(JobSpec((TaskSpec(command, gpus=RANKS),), name="lines"))
            await print_and_kill(yard, marks, second)
            job = await client.wait(job, timeout_s=GENEROUS_S)
            assert (job.state, job.attempt) == (JobState.SUCCEEDED, 1), job
            await asyncio.wait_for(check(client, job.id), GENEROUS_S)
            await until_recorded(bus)
