"""Rules, pins and the mark of the disk: a logger as a process, with a real nats-server."""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuyard.bus.nats_bus import NatsBus, connect
from gpuyard.client.aio import AsyncClient
from gpuyard.client.follow import follow
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import NotFound
from gpuyard.contracts.job import Job, JobSpec, JobState, TaskSpec
from gpuyard.contracts.subjects import JOB, STREAMS
from tests.integration.logger_process import WITHIN_S, LoggerProcess, append, batch_of, text_of
from tests.natsd import NatsServer

DAY_S = 86400.0
OLD, PINNED, YOUNG, RUNS = "old-aaaaaa", "pinned-bbbbbb", "young-cccccc", "runs-dddddd"
BUSY = {"seal_s": 0.1, "keep_interval_s": 0.1, "readers_s": 0.1, "trim_interval_s": 0.1, "keep_s": 0.0}
MONTH = "[[logger.keep]]\nage_days = 30\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "natsd") as running:
        yield running


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    async with connect(server.url, "retention-test") as connected:
        await connected.ensure(STREAMS)
        yield connected


async def printed(bus: NatsBus, job: str, ended_days_ago: float | None, lines: int = 1000) -> None:
    """What a scheduler and an executor write of a job."""
    spec = JobSpec((TaskSpec(("train",)),))
    state = JobState.RUNNING if ended_days_ago is None else JobState.SUCCEEDED
    ended_at_s = None if ended_days_ago is None else time.time() - ended_days_ago * DAY_S
    await bus.append(JOB(job=job), encode(Job(job, job, spec, state, 1, 0.0, 1, ended_at_s=ended_at_s)))
    await append(bus, batch_of(job, 0, 0, lines, end=ended_days_ago is not None))


async def is_whole(bus: NatsBus, job: str, lines: int = 1000) -> bool:
    async with asyncio.timeout(WITHIN_S):
        found = [line async for line in follow(bus, job, live=False)]
    return [line.text for line in found] == [text_of(0, seq) for seq in range(lines)]


async def until_gone(bus: NatsBus, job: str) -> NotFound:
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                async for _ in follow(bus, job, live=False):
                    pass
            except NotFound as error:
                return error
            await asyncio.sleep(0.02)


async def test_rules_and_pins_hold_over_kills(tmp_path: Path, server: NatsServer, bus: NatsBus) -> None:
    logger = LoggerProcess(tmp_path, server.url, tmp_path / "store", **BUSY)
    try:
        await logger.start()
        for job, days in ((OLD, 40.0), (PINNED, 40.0), (YOUNG, 1.0), (RUNS, None)):
            await printed(bus, job, days)
        async with AsyncClient(bus=bus) as client:
            await client.pin_logs(PINNED)
            assert [pin.job for pin in await client.pinned_logs()] == [PINNED]
        logger.kill()
        strict = LoggerProcess(tmp_path, server.url, tmp_path / "store", MONTH, **BUSY)
        await strict.start()
        try:
            assert "no longer kept since" in str(await until_gone(bus, OLD))
            strict.kill()
            await strict.start()
            assert "no longer kept since" in str(await until_gone(bus, OLD))
            for job in (PINNED, YOUNG, RUNS):
                assert await is_whole(bus, job)
            async with AsyncClient(bus=bus) as client:
                await client.unpin_logs(PINNED)
                assert "30 days" in str(await until_gone(bus, PINNED))
                with pytest.raises(NotFound, match="no longer kept"):
                    await client.pin_logs(PINNED)
            assert await is_whole(bus, YOUNG)
        finally:
            strict.kill()
    finally:
        logger.kill()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system; the fake disks of the unit tests remain")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


async def test_a_disk_nearly_full_costs_the_oldest_then_stops_the_intake_and_loses_nothing_else(
    tmp_path: Path, server: NatsServer, bus: NatsBus, small_disk: Path
) -> None:
    logger = LoggerProcess(tmp_path, server.url, small_disk / "store", **BUSY, free_share=0.5)
    ballast = small_disk / "ballast"
    try:
        await logger.start()
        for job, days in ((OLD, 40.0), (YOUNG, 1.0), (RUNS, None)):
            await printed(bus, job, days)
        ballast.write_bytes(bytes(10 * 1024 * 1024))
        assert "nearly full" in str(await until_gone(bus, OLD))
        report = await logger.until_health(ready=False)
        assert "new output waits in the stream" in report["why"]
        for first in range(1000, 20_000, 1000):
            await append(bus, batch_of(RUNS, 0, first, first + 1000))
        assert await is_whole(bus, RUNS, 20_000)
        ballast.unlink()
        await logger.until_health(ready=True)
        assert await is_whole(bus, RUNS, 20_000)
        logger.kill()
        await logger.start()
        assert await is_whole(bus, RUNS, 20_000)
    finally:
        logger.kill()
