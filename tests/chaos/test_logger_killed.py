"""kill -9 of the logger again and again while two ranks print: every line is stored once and in order."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from gpuyard.bus.nats_bus import NatsBus, connect
from gpuyard.client.follow import follow
from gpuyard.contracts.log import LogLine
from gpuyard.contracts.subjects import STREAMS
from tests.integration.logger_process import LoggerProcess, append, batch_of, batches_of, text_of
from tests.natsd import NatsServer

JOB = "train-abc123"
LINES = 100_000
KILLS = 15
WITHIN_S = 250.0

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


class Pace:
    """How many batches are written; wakes whoever waits for so many."""

    def __init__(self) -> None:
        self.written = 0
        self._changed = asyncio.Condition()

    async def tick(self) -> None:
        async with self._changed:
            self.written += 1
            self._changed.notify_all()

    async def reach(self, written: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.written >= written)


async def write(bus: NatsBus, rank: int, chance: Random, pace: Pace) -> None:
    """Print all lines of a rank in batches of about 25 KiB, one in flight."""
    for batch in batches_of(JOB, rank, range(LINES), 250, chance):
        await append(bus, batch)
        await pace.tick()
    await append(bus, batch_of(JOB, rank, LINES, LINES, end=True))


async def kill_again_and_again(logger: LoggerProcess, pace: Pace, chance: Random) -> None:
    """Kill it at places spread over the writing, each time in the middle of its work."""
    total = 2 * LINES // 250
    for place in sorted(chance.sample(range(total), KILLS)):
        await pace.reach(place)
        logger.kill()
        await logger.start()


async def followed(bus: NatsBus) -> list[LogLine]:
    return [line async for line in follow(bus, JOB, expected_ranks=2)]


def check(lines: list[LogLine]) -> None:
    for rank in (0, 1):
        of_rank = [line for line in lines if line.rank == rank]
        assert [line.seq for line in of_rank] == list(range(LINES))
        assert all(line.text == text_of(rank, line.seq) for line in of_rank)


async def test_each_line_is_stored_once_and_followed_once(tmp_path: Path) -> None:
    chance, pace = Random(7), Pace()
    with NatsServer(tmp_path / "natsd") as server:
        logger = LoggerProcess(tmp_path, server.url, tmp_path / "store", trim_interval_s=0.05, keep_s=0)
        async with connect(server.url, "chaos-test") as bus:
            await bus.ensure(STREAMS)
            await logger.start()
            try:
                async with asyncio.timeout(WITHIN_S), asyncio.TaskGroup() as tasks:
                    live = tasks.create_task(followed(bus))
                    for rank in (0, 1):
                        tasks.create_task(write(bus, rank, Random(rank), pace))
                    tasks.create_task(kill_again_and_again(logger, pace, chance))
                check(live.result())
                logger.kill()
                await logger.start()
                async with asyncio.timeout(WITHIN_S):
                    check([line async for line in follow(bus, JOB, live=False)])
            finally:
                logger.kill()
