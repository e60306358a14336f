"""The logger as a process, with a real nats-server."""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from gpuyard.bus.nats_bus import NatsBus, connect
from gpuyard.client.follow import follow
from gpuyard.contracts.log import OUT, LogBatch, LogChunk, LogLine
from gpuyard.contracts.subjects import STREAMS
from tests.integration.logger_process import WITHIN_S, LoggerProcess, append, batch_of, text_of
from tests.natsd import NatsServer

JOB = "train-abc123"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "natsd") as running:
        yield running


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    async with connect(server.url, "logger-test") as connected:
        await connected.ensure(STREAMS)
        yield connected


@pytest.fixture
async def logger(tmp_path: Path, server: NatsServer) -> AsyncIterator[LoggerProcess]:
    process = LoggerProcess(tmp_path, server.url, tmp_path / "store")
    try:
        await process.start()
        yield process
    finally:
        process.kill()


async def stored(bus: NatsBus) -> list[LogLine]:
    async with asyncio.timeout(WITHIN_S):
        return [line async for line in follow(bus, JOB, live=False)]


async def test_lines_survive_restarts_of_logger_and_server(
    bus: NatsBus, logger: LoggerProcess, server: NatsServer
) -> None:
    await append(bus, batch_of(JOB, 0, 0, 100))
    logger.kill()
    await append(bus, batch_of(JOB, 0, 100, 200))
    await logger.start()
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    await append(bus, batch_of(JOB, 0, 200, 300, end=True))
    async with asyncio.timeout(WITHIN_S):
        lines = [line async for line in follow(bus, JOB, expected_ranks=1)]
    assert [line.seq for line in lines] == list(range(300))
    assert all(line.text == text_of(0, line.seq) for line in lines)


async def test_a_follower_outlives_the_server(
    bus: NatsBus, logger: LoggerProcess, server: NatsServer
) -> None:
    await append(bus, batch_of(JOB, 0, 0, 10))
    lines = follow(bus, JOB, expected_ranks=1)
    async with asyncio.timeout(WITHIN_S):
        seqs = [(await anext(lines)).seq for _ in range(10)]
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        await append(bus, batch_of(JOB, 0, 10, 20, end=True))
        seqs += [line.seq async for line in lines]
    assert seqs == list(range(20))


async def test_it_ends_in_an_orderly_way(bus: NatsBus, logger: LoggerProcess) -> None:
    await append(bus, batch_of(JOB, 0, 0, 10))
    assert logger.end() == 0


async def test_a_second_logger_on_the_same_folder_is_refused(
    tmp_path: Path, server: NatsServer, logger: LoggerProcess
) -> None:
    (tmp_path / "second").mkdir()
    second = LoggerProcess(tmp_path / "second", server.url, logger.store)
    with pytest.raises(AssertionError, match="another logger uses"):
        await second.start()
    assert second.end() == 5


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB of its own."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a file system; the injected failures of the unit tests remain")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def noise(seq: int) -> bytes:
    """A line of 99 bytes that hardly compresses."""
    return Random(seq).randbytes(99).translate(_PRINTABLE)


_PRINTABLE = bytes(33 + n % 90 for n in range(256))


def noisy(first_seq: int, next_seq: int, *, end: bool = False) -> LogBatch:
    data = b"".join(noise(seq) + b"\n" for seq in range(first_seq, next_seq))
    chunks = (LogChunk(OUT, float(first_seq), data),) if data else ()
    return LogBatch(JOB, 1, 0, first_seq, next_seq, chunks, end=end)


async def test_a_full_disk_is_waited_out(
    tmp_path: Path, server: NatsServer, bus: NatsBus, small_disk: Path
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(3 * 1024 * 1024))
    logger = LoggerProcess(
        tmp_path,
        server.url,
        small_disk,
        trim_interval_s=0.01,
        keep_s=0,
        seal_s=0.2,
        disk_share=1.0,
        free_share=0.0,
        free_bytes=0,
    )
    await logger.start()
    live = follow(bus, JOB, expected_ranks=1)
    try:
        for first in range(0, 20_000, 500):
            await append(bus, noisy(first, first + 500))
        report = await logger.until_health(ready=False)
        assert "No space left" in report["why"]
        await append(bus, noisy(20_000, 20_000, end=True))
        async with asyncio.timeout(WITHIN_S):
            assert [line.seq async for line in live] == list(range(20_000))
        ballast.unlink()
        await logger.until_health(ready=True)
        lines = await stored(bus)
        assert [line.seq for line in lines] == list(range(20_000))
        assert all(line.text == noise(line.seq) for line in lines)
    finally:
        logger.kill()
