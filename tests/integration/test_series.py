"""Series with a real nats-server: through kills of the logger, and in a whole yard."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from gpuyard import JobSpec, JobState, TaskSpec
from gpuyard.bus.nats_bus import NatsBus, connect
from gpuyard.cli.main import main
from gpuyard.client import metrics
from gpuyard.client.series import Point
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.job import MetricRule
from gpuyard.contracts.log import OUT, LogBatch, LogChunk
from gpuyard.contracts.subjects import STREAMS
from tests.integration.logger_process import WITHIN_S, LoggerProcess, append
from tests.natsd import NatsServer
from tests.realyard import GENEROUS_S, real_yard

JOB = "train-abc123"
LINES = 400


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "natsd") as running:
        yield running


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    async with connect(server.url, "series-test") as connected:
        await connected.ensure(STREAMS)
        yield connected


@pytest.fixture
async def logger(tmp_path: Path, server: NatsServer) -> AsyncIterator[LoggerProcess]:
    process = LoggerProcess(tmp_path, server.url, tmp_path / "store", seal_s=0.05)
    try:
        await process.start()
        yield process
    finally:
        process.kill()


def printed(rank: int, first: int, after: int) -> LogBatch:
    data = b"".join(b"step %d/%d loss 0.%06d\n" % (seq, LINES, seq) for seq in range(first, after))
    return LogBatch(JOB, 1, rank, first, after, (LogChunk(OUT, float(first), data),))


async def points(bus: NatsBus) -> list[Point]:
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                return [point async for point in metrics.points(bus, JOB, attempt=None, ranks=None)]
            except Unavailable:
                await asyncio.sleep(0.05)


@pytest.mark.chaos
async def test_points_are_kept_once_while_the_logger_is_killed(bus: NatsBus, logger: LoggerProcess) -> None:
    chance = Random(1)
    for first in range(0, LINES, 20):
        for rank in range(3):
            overlap = chance.randint(0, min(first, 30))
            await append(bus, printed(rank, first - overlap, first + 20))
        if first % 80 == 60:
            logger.kill()
            await logger.start()
    async with asyncio.timeout(WITHIN_S):
        while len(found := await points(bus)) < 3 * LINES * 2:
            await asyncio.sleep(0.05)
    counted = Counter((point.rank, point.seq) for point in found if point.name == "loss")
    assert counted == {(rank, seq): 1 for rank in range(3) for seq in range(LINES)}
    assert all(point.value == pytest.approx(point.seq / 1e6) for point in found if point.name == "loss")
    assert all(point.step == point.seq for point in found)


PROGRAM = """
import sys, time
for step in range(1, 31):
    print(f"step {step}/40 loss={1 / step:.4f} and a score of {step * 2} points", flush=True)
sys.stderr.write("\\r 50%|##   | 1/2 [00:01<00:01, 1.0it/s]")
sys.stderr.flush()
time.sleep(600)
"""


async def test_a_job_shows_how_far_it_is_and_its_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = JobSpec(
        (TaskSpec(("python3", "-c", PROGRAM), ranks=2),),
        name="curves",
        metrics=(MetricRule("score", r"score of (?P<value>\d+)"),),
    )
    with real_yard(tmp_path / "yard", "azure-ndv2-v100-8gpu") as yard:
        async with yard.client() as client, asyncio.timeout(GENEROUS_S):
            job = await client.submit(spec)
            while (await _count(client.points(job)) if (await client.get(job)).attempt else 0) < 2 * 3 * 30:
                await asyncio.sleep(0.1)
            progress = await client.progress(job)
            assert progress is not None
            assert progress.fraction is not None
            directory = ("--dir", str(yard.root))
            shown = await _told(capsys, "show", job.id, "--json", *directory)
            assert json.loads(shown)["progress"]["fraction"] == pytest.approx(progress.fraction)
            table = await _told(capsys, "metrics", job.id, *directory)
            (score,) = [line for line in table.splitlines() if line.startswith("score")]
            assert score.split()[1:7] == ["60", "2", "60", "31", "60", "0-1"]
            picture = tmp_path / "loss.png"
            await _told(capsys, "metrics", job.id, "--name", "loss", "--plot", str(picture), *directory)
            assert picture.stat().st_size > 10_000
            await client.cancel(job, wait=True)
            ended = await client.get(job)
            assert ended.state is JobState.CANCELLED
            after = await client.progress(ended)
            assert after is not None
            assert after.left_s is None


async def _count(points: AsyncIterator[Point]) -> int:
    try:
        return sum([1 async for _ in points])
    except Unavailable:
        return 0


async def _told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints; it has an event loop of its own."""
    capsys.readouterr()
    assert await asyncio.to_thread(main, arguments) == 0, capsys.readouterr().err
    return capsys.readouterr().out
