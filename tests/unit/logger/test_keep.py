import asyncio
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from gpuyard.bus.memory import MemoryBus
from gpuyard.client import pins
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import Failure, NotFound
from gpuyard.contracts.log import LogPage, LogQuery, partition_of
from gpuyard.contracts.segment import Dropped, PinRequest
from gpuyard.contracts.subjects import (
    DROPPED,
    LOG,
    LOGS_STREAM,
    PIN_REQUEST,
    REJECTS_STREAM,
    SEGMENTS_STREAM,
    STATE_STREAM,
)
from gpuyard_logger.config import KeepRule
from tests.unit.logger.batches import batch, is_true_to_number, lines, seqs
from tests.unit.logger.keeping import BUSY, MONTH, OLD, RUNS, YOUNG, metric, printed, record
from tests.unit.logger.running import LIMIT_S, ask, records, running, until, write

PARTITION = partition_of(OLD)


@pytest.fixture
async def bus() -> MemoryBus:
    made = MemoryBus()
    await made.ensure((STATE_STREAM, LOGS_STREAM, REJECTS_STREAM, SEGMENTS_STREAM))
    return made


async def three_jobs(bus: MemoryBus) -> None:
    """One ended long ago, one yesterday, one runs. All printed."""
    await record(bus, OLD, 40.0)
    await record(bus, YOUNG, 1.0)
    await record(bus, RUNS)
    await printed(bus, OLD, YOUNG, RUNS)


async def has_all(bus: MemoryBus, *jobs: str) -> bool:
    for job in jobs:
        page = await ask(bus, LogQuery(job))
        if not isinstance(page, LogPage) or seqs(page.batches) != list(range(10)):
            return False
        assert is_true_to_number(lines(page.batches))
    return True


async def gone(bus: MemoryBus, job: str) -> Failure:
    """The answer once the job's output is no longer kept."""
    async with asyncio.timeout(LIMIT_S):
        while not isinstance(answer := await ask(bus, LogQuery(job)), Failure):
            await asyncio.sleep(0.001)
    return answer


async def is_in_stream(bus: MemoryBus, job: str) -> bool:
    async with bus.read(LOGS_STREAM, LOG.some(partition=PARTITION, job=job)) as reader:
        return reader.backlog > 0


async def test_output_leaves_when_it_is_too_old_and_says_so(bus: MemoryBus, tmp_path: Path) -> None:
    await three_jobs(bus)
    async with running(bus, tmp_path, keep=MONTH, **BUSY) as context:
        answer = await gone(bus, OLD)
        assert answer.code == "not_found"
        assert "no longer kept since" in answer.message
        assert "30 days" in answer.message
        assert await has_all(bus, YOUNG, RUNS)
        await until(lambda: metric(context, "gpuyard_logger_dropped_jobs_total") == 1)
        assert not await is_in_stream(bus, OLD)
        assert OLD not in {row.job for segment in (await records(bus)).values() for row in segment.rows}


async def test_bytes_come_back_when_less_than_half_of_a_segment_is_left(
    bus: MemoryBus, tmp_path: Path
) -> None:
    await record(bus, OLD, 40.0)
    await record(bus, YOUNG, 1.0)
    await write(bus, [batch(0, 5000, job=OLD, end=True), batch(0, 10, job=YOUNG, end=True)])
    async with running(bus, tmp_path, keep=MONTH, **BUSY):
        await gone(bus, OLD)
        await until(lambda: sum(file.stat().st_size for file in tmp_path.glob("segments/*.seg")) < 1000)
        assert {segment.dropped_bytes for segment in (await records(bus)).values()} == {0}
        assert await has_all(bus, YOUNG)


async def test_what_is_gone_stays_gone(bus: MemoryBus, tmp_path: Path) -> None:
    await three_jobs(bus)
    async with running(bus, tmp_path, **BUSY) as context:
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") > 0)
        assert await has_all(bus, OLD, YOUNG, RUNS)
    shutil.copytree(tmp_path / "segments", tmp_path / "copy")
    async with running(bus, tmp_path, keep=MONTH, **BUSY):
        await gone(bus, OLD)
    shutil.copytree(tmp_path / "copy", tmp_path / "segments", dirs_exist_ok=True)
    (tmp_path / "index.sqlite").unlink()
    async with running(bus, tmp_path, **BUSY):
        assert (await gone(bus, OLD)).code == "not_found"
        assert await has_all(bus, YOUNG, RUNS)


async def test_a_drop_that_was_interrupted_is_ended_by_the_next_owner(bus: MemoryBus, tmp_path: Path) -> None:
    await three_jobs(bus)
    async with running(bus, tmp_path, **BUSY) as context:
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") > 0)
    note = Dropped(OLD, 2e9, "it was the oldest")
    await bus.append(DROPPED(partition=PARTITION, job=OLD), encode(note))
    async with running(bus, tmp_path, **BUSY):
        assert "it was the oldest" in (await gone(bus, OLD)).message
        assert await has_all(bus, YOUNG, RUNS)
        assert not await is_in_stream(bus, OLD)


async def test_labels_choose_the_rule(bus: MemoryBus, tmp_path: Path) -> None:
    await record(bus, OLD, 10.0, team="vision")
    await record(bus, YOUNG, 10.0, team="speech")
    await printed(bus, OLD, YOUNG)
    rules = (KeepRule(labels={"team": "vision"}, age_days=5.0),)
    async with running(bus, tmp_path, keep=rules, **BUSY):
        await gone(bus, OLD)
        assert await has_all(bus, YOUNG)


async def test_a_job_without_a_record_has_ended_once_it_is_silent(bus: MemoryBus, tmp_path: Path) -> None:
    await write(bus, [batch(0, 10, job=OLD), batch(0, 10, job=YOUNG, at_s=2e9)])
    async with running(bus, tmp_path, keep=MONTH, **BUSY):
        await gone(bus, OLD)
        assert await has_all(bus, YOUNG)


async def test_pinned_output_stays_until_it_is_unpinned(bus: MemoryBus, tmp_path: Path) -> None:
    await three_jobs(bus)
    async with running(bus, tmp_path, **BUSY):
        await pins.put(bus, OLD, pinned=True, by="ada", timeout_s=LIMIT_S)
        assert [(pin.job, pin.by) for pin in await pins.everything(bus)] == [(OLD, "ada")]
    (tmp_path / "index.sqlite").unlink()
    await record(bus, YOUNG, 40.0)
    async with running(bus, tmp_path, keep=MONTH, **BUSY):
        await gone(bus, YOUNG)
        assert await has_all(bus, OLD, RUNS)
        await pins.put(bus, OLD, pinned=False, by="ada", timeout_s=LIMIT_S)
        assert await pins.everything(bus) == []
        await gone(bus, OLD)
        with pytest.raises(NotFound, match="no longer kept"):
            await pins.put(bus, OLD, pinned=True, by="ada", timeout_s=LIMIT_S)


@pytest.mark.parametrize(
    "request_", [b"\xc1", encode(PinRequest("not an id")), encode(PinRequest(f"{OLD}-elsewhere"))]
)
async def test_bad_requests_pin_nothing(bus: MemoryBus, tmp_path: Path, request_: bytes) -> None:
    async with running(bus, tmp_path):
        answer = await bus.request(PIN_REQUEST(partition=PARTITION), request_, timeout_s=LIMIT_S)
        assert b"failure" in answer.payload
        assert await pins.everything(bus) == []


class Usage(NamedTuple):
    total: int
    used: int
    free: int


class FakeDisk:
    """A disk of 1000 MB; free is what the test says."""

    total = 1_000_000_000

    def __init__(self) -> None:
        self.free = self.total

    def usage(self, _path: object) -> Usage:
        return Usage(self.total, self.total - self.free, self.free)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FakeDisk:
    fake = FakeDisk()
    monkeypatch.setattr("gpuyard_logger.keep_disk.shutil.disk_usage", fake.usage)
    return fake


async def test_a_disk_nearly_full_costs_the_oldest_that_ended_and_then_stops_the_intake(
    bus: MemoryBus, tmp_path: Path, disk: FakeDisk
) -> None:
    await three_jobs(bus)
    async with running(bus, tmp_path, **BUSY) as context:
        assert await has_all(bus, OLD, YOUNG, RUNS)
        await pins.put(bus, YOUNG, pinned=True, by="", timeout_s=LIMIT_S)
        disk.free = 1_000_000
        assert "nearly full" in (await gone(bus, OLD)).message
        await until(lambda: not context.health.is_ready)
        assert "new output waits in the stream" in context.health.why
        assert metric(context, "gpuyard_logger_paused") == 1
        taken = metric(context, "gpuyard_logger_lines_total")
        await write(bus, [batch(10, 2000, job=RUNS)])
        assert await has_all(bus, YOUNG)
        assert metric(context, "gpuyard_logger_lines_total") == taken
        disk.free = disk.total
        await until(lambda: metric(context, "gpuyard_logger_lines_total") == taken + 1990)
        await until(lambda: context.health.is_ready)
        assert metric(context, "gpuyard_logger_paused") == 0


async def test_the_store_keeps_its_share_of_the_disk(bus: MemoryBus, tmp_path: Path, disk: FakeDisk) -> None:
    await three_jobs(bus)
    async with running(bus, tmp_path, **BUSY) as context:
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") > 0)
        assert await has_all(bus, OLD, YOUNG, RUNS)
    async with running(bus, tmp_path, disk_share=1e-9, **BUSY):
        await gone(bus, OLD)
        await gone(bus, YOUNG)
        assert await has_all(bus, RUNS)
