"""Two loggers share the partitions; one dies, or sleeps longer than its lease: each line is stored once."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gpuyard.bus.nats_bus import NatsBus, connect
from gpuyard.bus.port import From
from gpuyard.client.follow import follow
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure
from gpuyard.contracts.log import PARTITIONS, LogPage, LogQuery, partition_of
from gpuyard.contracts.segment import LINES, Segment
from gpuyard.contracts.subjects import LOG_QUERY, SEGMENT, SEGMENTS_STREAM, STREAMS
from tests.integration.logger_process import WITHIN_S, LoggerProcess, append, batch_of, text_of
from tests.natsd import NatsServer

JOBS = [f"train-{number}" for number in range(16)]
assert {partition_of(job) for job in JOBS} == set(range(PARTITIONS))
LEASE_S = 2.0
TAKEOVER_S = LEASE_S + 10.0
"""Until another logger is known to be silent, its lease is over, and its lines are read."""

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "natsd") as running:
        yield running


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    async with connect(server.url, "two-loggers-test") as connected:
        await connected.ensure(STREAMS)
        yield connected


@pytest.fixture
async def pair(tmp_path: Path, server: NatsServer, bus: NatsBus) -> AsyncIterator[list[LoggerProcess]]:
    """Two loggers, each with its share."""
    loggers = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        loggers.append(
            LoggerProcess(folder, server.url, folder / "store", lease_s=LEASE_S, seal_s=0.2, keep_s=0)
        )
    try:
        await asyncio.gather(*(logger.start() for logger in loggers))
        await until_shared(loggers)
        yield loggers
    finally:
        for logger in loggers:
            logger.kill()


async def partitions_of(logger: LoggerProcess) -> set[int]:
    report = await logger.until_health(ready=True)
    return set(report["partitions"])


async def until_shared(loggers: list[LoggerProcess]) -> None:
    """Wait until every partition has one owner, and each logger has some."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            shares = [await partitions_of(logger) for logger in loggers]
            if all(shares) and sorted(n for share in shares for n in share) == list(range(PARTITIONS)):
                return
            await asyncio.sleep(0.05)


async def records(bus: NatsBus) -> list[Segment]:
    """What is recorded and not replaced."""
    found: dict[str, Segment] = {}
    async with bus.read(SEGMENTS_STREAM, SEGMENT.all, start=From.LAST_PER_SUBJECT) as reader:
        while reader.backlog:
            segment = decode((await anext(reader)).payload, Segment)
            found[segment.id] = segment
    replaced = {name for segment in found.values() for name in segment.replaces}
    return [segment for name, segment in found.items() if name not in replaced]


async def numbers(bus: NatsBus, job: str) -> list[int]:
    """Numbers of a job's sealed lines, as often as they are stored."""
    rows = [row for segment in await records(bus) for row in segment.rows if row.kind == LINES]
    return sorted(seq for row in rows if row.job == job for seq in range(row.first_seq, row.next_seq))


async def until_sealed(bus: NatsBus, count: int) -> None:
    """Wait until so many lines of every job are sealed; each is sealed once."""
    async with asyncio.timeout(WITHIN_S):
        for job in JOBS:
            while len(await numbers(bus, job)) < count:
                await asyncio.sleep(0.05)
    for job in JOBS:
        assert await numbers(bus, job) == list(range(count))


async def write(bus: NatsBus, first_seq: int, next_seq: int, *, end: bool = False) -> None:
    await asyncio.gather(*(append(bus, batch_of(job, 0, first_seq, next_seq, end=end)) for job in JOBS))


async def read_all(bus: NatsBus, count: int) -> None:
    """Every line of every job, once and in order."""
    for job in JOBS:
        async with asyncio.timeout(WITHIN_S):
            lines = [line async for line in follow(bus, job, live=False)]
        assert [line.seq for line in lines] == list(range(count))
        assert all(line.text == text_of(0, line.seq) for line in lines)


async def ask(bus: NatsBus, job: str) -> LogPage | Failure:
    answer = await bus.request(LOG_QUERY(), encode(LogQuery(job)), timeout_s=10)
    page: LogPage | Failure = decode(answer.payload, LogPage | Failure)
    return page


async def name_of(logger: LoggerProcess) -> str:
    report = await logger.until_health(ready=True)
    return str(report["logger"])


async def test_they_share_the_work_and_every_line_is_stored_once(
    bus: NatsBus, pair: list[LoggerProcess]
) -> None:
    await write(bus, 0, 100)
    await write(bus, 100, 200)
    await until_sealed(bus, 200)
    await read_all(bus, 200)
    assert len({segment.holder for segment in await records(bus)}) == 2


async def test_one_is_killed_and_the_other_takes_over(bus: NatsBus, pair: list[LoggerProcess]) -> None:
    dead, alive = pair
    name = await name_of(dead)
    await write(bus, 0, 100)
    await until_sealed(bus, 100)
    held = {row.job for one in await records(bus) if one.holder == name for row in one.rows}
    assert held
    await write(bus, 100, 150)
    dead.kill()
    killed_s = time.monotonic()
    while await partitions_of(alive) != set(range(PARTITIONS)):
        await asyncio.sleep(0.05)
    assert time.monotonic() - killed_s < TAKEOVER_S
    await write(bus, 150, 200)
    await until_sealed(bus, 200)
    for job in held:
        answer = await ask(bus, job)
        assert isinstance(answer, Failure)
        assert (answer.code, answer.retryable) == ("unavailable", True)
        assert name in answer.message
    for job in set(JOBS) - held:
        assert isinstance(await ask(bus, job), LogPage)
    await dead.start()
    await until_shared(pair)
    await read_all(bus, 200)


async def test_one_that_slept_longer_than_its_lease_does_no_harm(
    bus: NatsBus, pair: list[LoggerProcess]
) -> None:
    asleep, awake = pair
    for round_ in range(2):
        await write(bus, 100 * round_, 100 * round_ + 50)
        asleep.send(signal.SIGSTOP)
        while await partitions_of(awake) != set(range(PARTITIONS)):
            await asyncio.sleep(0.05)
        await write(bus, 100 * round_ + 50, 100 * round_ + 100)
        asleep.send(signal.SIGCONT)
        await until_shared(pair)
    await write(bus, 200, 200, end=True)
    await until_sealed(bus, 200)
    await read_all(bus, 200)


async def test_a_logger_that_is_new_gets_its_share_while_lines_come(
    tmp_path: Path, server: NatsServer, bus: NatsBus
) -> None:
    (tmp_path / "three").mkdir()
    first = LoggerProcess(tmp_path, server.url, tmp_path / "store", lease_s=LEASE_S, seal_s=0.2)
    second = LoggerProcess(
        tmp_path / "three", server.url, tmp_path / "three" / "store", lease_s=LEASE_S, seal_s=0.2
    )
    try:
        await first.start()
        await write(bus, 0, 100)
        await second.start()
        for seq in range(100, 200, 10):
            await write(bus, seq, seq + 10)
        await until_shared([first, second])
        assert second.end() == 0
        await write(bus, 200, 300, end=True)
        while await partitions_of(first) != set(range(PARTITIONS)):
            await asyncio.sleep(0.05)
        await second.start()
        await until_sealed(bus, 300)
        await read_all(bus, 300)
    finally:
        first.kill()
        second.kill()
