"""Output moves to an S3 server over real HTTP and is read from there, whatever happens to the server."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from gpuyard.bus.nats_bus import NatsBus, connect
from gpuyard.client.follow import follow
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure, Unavailable
from gpuyard.contracts.log import OUT, LogBatch, LogChunk, LogLine, LogPage, LogQuery
from gpuyard.contracts.subjects import LOG_QUERY, STREAMS
from tests.integration.logger_process import WITHIN_S, LoggerProcess, append, batch_of, text_of
from tests.natsd import NatsServer
from tests.s3server import S3Server
from tests.wire import Wire

JOB = "train-abc123"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "natsd") as running:
        yield running


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    async with connect(server.url, "objects-test") as connected:
        await connected.ensure(STREAMS)
        yield connected


@pytest.fixture
def s3(tmp_path: Path) -> Iterator[S3Server]:
    running = S3Server(tmp_path)
    running.start()
    yield running
    running.kill()


@pytest.fixture
def wire(s3: S3Server) -> Iterator[Wire]:
    made = Wire(s3.port)
    yield made
    made.close()


@pytest.fixture
async def logger(
    tmp_path: Path, server: NatsServer, s3: S3Server, wire: Wire
) -> AsyncIterator[LoggerProcess]:
    """A logger that moves every segment at once."""
    options = "".join(f"{key} = {json.dumps(value)}\n" for key, value in s3.options_by(wire.port).items())
    tables = (
        f'[logger.objects]\nurl = "{s3.url}"\nafter_s = 0\nmin_bytes = 0\n[logger.objects.options]\n{options}'
    )
    eager = {"seal_s": 0.1, "keep_interval_s": 0.1, "readers_s": 0.1, "trim_interval_s": 0.1, "keep_s": 0.0}
    process = LoggerProcess(tmp_path, server.url, tmp_path / "store", tables, **eager)
    try:
        await process.start()
        yield process
    finally:
        process.kill()


async def all_moved(logger: LoggerProcess) -> None:
    """Wait until nothing is left on the disk."""
    async with asyncio.timeout(WITHIN_S):
        while list(logger.store.glob("segments/*")):
            await asyncio.sleep(0.02)


async def on_disk(logger: LoggerProcess) -> None:
    """Wait until there is a segment on the disk."""
    async with asyncio.timeout(WITHIN_S):
        while not list(logger.store.glob("segments/*.seg")):
            await asyncio.sleep(0.02)


async def stored(bus: NatsBus) -> list[LogLine]:
    async with asyncio.timeout(WITHIN_S):
        return [line async for line in follow(bus, JOB, live=False)]


def is_whole(lines: list[LogLine], count: int) -> bool:
    return [line.seq for line in lines] == list(range(count)) and all(
        line.text == text_of(0, line.seq) for line in lines
    )


async def printed(bus: NatsBus, first: int, after: int) -> None:
    for seq in range(first, after, 500):
        await append(bus, batch_of(JOB, 0, seq, seq + 500))


async def test_segments_move_to_s3_and_are_read_from_there(
    bus: NatsBus, logger: LoggerProcess, tmp_path: Path
) -> None:
    await printed(bus, 0, 20_000)
    await on_disk(logger)
    await all_moved(logger)
    assert is_whole(await stored(bus), 20_000)
    live = follow(bus, JOB, expected_ranks=1)
    async with asyncio.timeout(WITHIN_S):
        seqs = [(await anext(live)).seq for _ in range(20_000)]
        await append(bus, batch_of(JOB, 0, 20_000, 20_001, end=True))
        seqs += [line.seq async for line in live]
    assert seqs == list(range(20_001))
    assert logger.end() == 0
    await logger.start()
    await all_moved(logger)
    assert is_whole(await stored(bus), 20_001)


async def test_errors_and_silence_of_the_storage_cost_only_time(
    bus: NatsBus, logger: LoggerProcess, wire: Wire
) -> None:
    wire.become("errors")
    await printed(bus, 0, 5_000)
    await met(wire, 5)
    assert (await logger.until_health(ready=True))["ready"]
    assert is_whole(await stored(bus), 5_000)
    wire.become("through", bytes_per_s=1_000_000)
    await all_moved(logger)
    wire.become("silent")
    answer = decode(
        (await bus.request(LOG_QUERY(), encode(LogQuery(JOB)), timeout_s=30)).payload, LogPage | Failure
    )
    assert isinstance(answer, Failure)
    assert (answer.code, answer.retryable) == ("unavailable", True)
    with pytest.raises(Unavailable):
        await stored(bus)
    wire.become("through")
    assert is_whole(await stored(bus), 5_000)


async def test_a_server_killed_in_the_middle_of_a_move_loses_nothing(
    bus: NatsBus, logger: LoggerProcess, s3: S3Server, wire: Wire
) -> None:
    wire.become("cut")
    data = [_noise(number) for number in range(40)]
    for number, batch in enumerate(data):
        await append(bus, batch)
        assert batch.first_seq == number
    await until_sealed(logger, sum(len(batch.chunks[0].data) for batch in data))
    wire.become("through", bytes_per_s=500_000)
    async with asyncio.timeout(WITHIN_S):
        while wire.passed_bytes < 100_000:  # less than the smallest segment
            await asyncio.sleep(0.01)
    s3.kill()
    wire.become("through")
    assert [line.text + b"\n" for line in await stored(bus)] == [batch.chunks[0].data for batch in data]
    await asyncio.to_thread(s3.start)
    await all_moved(logger)
    assert [line.text + b"\n" for line in await stored(bus)] == [batch.chunks[0].data for batch in data]


async def test_a_logger_killed_while_it_moves_goes_on_where_it_was(
    bus: NatsBus, logger: LoggerProcess, wire: Wire
) -> None:
    for round_ in range(4):
        wire.become("through", bytes_per_s=100_000)
        await printed(bus, round_ * 2_500, (round_ + 1) * 2_500)
        await on_disk(logger)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3 * round_):
                await all_moved(logger)
        logger.kill()
        await logger.start()
    wire.become("through")
    await all_moved(logger)
    assert is_whole(await stored(bus), 10_000)


async def met(wire: Wire, count: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while wire.met < count:
            await asyncio.sleep(0.02)


async def until_sealed(logger: LoggerProcess, size_bytes: int) -> None:
    async with asyncio.timeout(WITHIN_S):
        while sum(file.stat().st_size for file in logger.store.glob("segments/*.seg")) < size_bytes:
            await asyncio.sleep(0.02)


def _noise(number: int) -> LogBatch:
    """One line of 200 kB that does not compress."""
    text = Random(number).randbytes(200_000).replace(b"\n", b"\r") + b"\n"
    return LogBatch(JOB, 1, 0, number, number + 1, (LogChunk(OUT, float(number), text),))
