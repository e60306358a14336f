import asyncio
from pathlib import Path

import pytest

from gpuyard.bus.memory import MemoryBus
from gpuyard.contracts.codec import encode
from gpuyard.contracts.log import PARTITIONS, LogPage, LogQuery, partition_of
from gpuyard.contracts.segment import SegmentReleased
from gpuyard.contracts.subjects import SEGMENT_RELEASED
from gpuyard.runtime.service import Context
from gpuyard_logger.core.shares import share_of
from tests.unit.logger.batches import batch, seqs
from tests.unit.logger.keeping import BUSY, metric
from tests.unit.logger.running import LIMIT_S, ask, new_bus, records, running, until, write

JOBS = [f"job-{number}" for number in range(24)]
assert {partition_of(job) for job in JOBS} == set(range(PARTITIONS))


async def printed(bus: MemoryBus, context: Context) -> None:
    await write(bus, [batch(0, 10, job=job, end=True) for job in JOBS])
    await until(lambda: metric(context, "gpuyard_logger_lines_total") == 10 * len(JOBS))
    async with asyncio.timeout(LIMIT_S):
        while await recorded(bus) != set(JOBS):
            await asyncio.sleep(0.001)


async def recorded(bus: MemoryBus) -> set[str]:
    return {row.job for segment in (await records(bus)).values() for row in segment.rows}


async def has_all(bus: MemoryBus, jobs: list[str]) -> bool:
    pages = [await ask(bus, LogQuery(job)) for job in jobs]
    return all(isinstance(page, LogPage) and seqs(page.batches) == list(range(10)) for page in pages)


def name_of(context: Context) -> str:
    return str(context.health.notes["logger"])


def files(folder: Path) -> set[str]:
    return {file.stem for file in folder.glob("segments/*.seg")}


async def test_segments_follow_their_partitions_to_a_new_logger(tmp_path: Path) -> None:
    bus = await new_bus()
    one, two = tmp_path / "one", tmp_path / "two"
    async with running(bus, one, **BUSY) as first:
        await printed(bus, first)
        async with running(bus, two, **BUSY) as second:
            moving = share_of(name_of(second), [name_of(first)], PARTITIONS)
            assert 0 < len(moving) < PARTITIONS
            async with asyncio.timeout(LIMIT_S):
                while not await all_home(bus, first, second):
                    await asyncio.sleep(0.01)
            held = await records(bus)
            await until(lambda: files(one) | files(two) == held.keys() and not files(one) & files(two))
            assert await has_all(bus, JOBS)


async def all_home(bus: MemoryBus, first: Context, second: Context) -> bool:
    share = share_of(name_of(second), [name_of(first)], PARTITIONS)
    return all(
        segment.holder == name_of(second if segment.partition in share else first)
        for segment in (await records(bus)).values()
    )


async def test_output_of_a_logger_that_is_away_stays_recorded(tmp_path: Path) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path / "one", **BUSY) as first:
        await printed(bus, first)
    async with running(bus, tmp_path / "two", **BUSY):
        await until(lambda: True)
        assert await recorded(bus) == set(JOBS)
        assert not await has_all(bus, JOBS[:1])
        async with running(bus, tmp_path / "one", **BUSY), asyncio.timeout(LIMIT_S):
            while not await has_all(bus, JOBS):
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("payload", [b"\xc1", encode(SegmentReleased("0f" * 16, 0))])
async def test_nothing_is_removed_that_no_record_says_to_lie_elsewhere(
    tmp_path: Path, payload: bytes
) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path, **BUSY) as context:
        await printed(bus, context)
        for name, segment in (await records(bus)).items():
            released = encode(SegmentReleased(name, segment.partition))
            await bus.publish(SEGMENT_RELEASED(logger=name_of(context)), released)
        await bus.publish(SEGMENT_RELEASED(logger=name_of(context)), payload)
        assert await has_all(bus, JOBS)
        assert set(await records(bus)) <= files(tmp_path)
