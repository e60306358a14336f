"""A running logger tells of lines it finds: once, by the rules of shipment, logger and job."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.port import Appended
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.job import Job, JobSpec, JobState, TaskSpec
from gpuyard.contracts.log import OUT, LogBatch, LogChunk
from gpuyard.contracts.log_rule import LogAction, LogRule
from gpuyard.contracts.request import Finding
from gpuyard.contracts.subjects import JOB, REQUEST, REQUESTS_STREAM, STATE_STREAM
from gpuyard.runtime.clock import FakeClock
from gpuyard_logger.config import PoolLogRule
from gpuyard_logger.patterns import PatternWatch
from tests.unit.logger.batches import JOB as NAME
from tests.unit.logger.running import LIMIT_S, context_on, records, running, with_streams, write

OOM = b"torch.OutOfMemoryError: CUDA out of memory.\n"
RULES = (
    PoolLogRule("slow", "slow input", labels={"pool": "a100"}),
    PoolLogRule("slow", "slower input", labels={"pool": "other"}),
)


def printed(*lines: bytes, first_seq: int = 0, rank: int = 0) -> LogBatch:
    chunks = (LogChunk(OUT, 7.0, b"".join(lines)),)
    return LogBatch(NAME, 1, rank, first_seq, first_seq + len(lines), chunks)


class Told(MemoryBus):
    """A bus that keeps the findings it is told of, but takes none at the first tries."""

    def __init__(self, refusals: int = 0) -> None:
        super().__init__()
        self.refusals = refusals
        self.findings: list[Finding] = []

    async def append(self, subject: str, payload: bytes, **options: Any) -> Appended:
        is_finding = subject == REQUEST(kind="finding")
        if is_finding and self.refusals:
            self.refusals -= 1
            raise Unavailable("no room")
        appended = await super().append(subject, payload, **options)
        if is_finding and not appended.duplicate:
            self.findings.append(decode(payload, Finding))
        return appended


async def bus_with(*rules: LogRule, refusals: int = 0) -> Told:
    bus = await with_streams(Told(refusals))
    await bus.ensure((STATE_STREAM, REQUESTS_STREAM))
    spec = JobSpec((TaskSpec(("x",)),), labels={"pool": "a100"}, log_rules=rules)
    await bus.append(JOB(job=NAME), encode(Job(NAME, "r1", spec, JobState.RUNNING, 1, 1.0)))
    return bus


@asynccontextmanager
async def watch_on(bus: Told) -> AsyncIterator[PatternWatch]:
    watch = PatternWatch(context_on(bus), RULES)
    await watch.learn(NAME)
    yield watch
    await watch.settle()


async def test_a_running_logger_tells_of_a_line_once(tmp_path: Path) -> None:
    bus = await bus_with()
    for _ in range(2):
        async with running(bus, tmp_path):
            await write(bus, [printed(b"x\n", OOM), printed(OOM, rank=1), printed(OOM, first_seq=2)])
            async with asyncio.timeout(LIMIT_S):
                while not await records(bus):
                    await asyncio.sleep(0.001)
    (finding,) = bus.findings
    assert (finding.job, finding.attempt, finding.rank, finding.at_s) == (NAME, 1, 0, 7.0)
    assert (finding.rule, finding.action) == ("cuda-oom", LogAction.EVENT)
    assert finding.message == "a GPU ran out of memory"
    assert finding.line == OOM.decode().strip()


async def test_rules_of_the_job_go_before_those_of_the_logger_and_the_shipped() -> None:
    bus = await bus_with(LogRule("cuda-oom", "CUDA out", LogAction.NO_RETRY, "mine"))
    async with watch_on(bus) as watch:
        watch.take(printed(OOM, b"slow input\n"))
    assert [(f.rule, f.action, f.message) for f in bus.findings] == [
        ("slow", LogAction.EVENT, "log rule slow"),
        ("cuda-oom", LogAction.NO_RETRY, "mine"),
    ]


async def test_another_attempt_is_told_of_again() -> None:
    bus = await bus_with()
    async with watch_on(bus) as watch:
        for attempt in (1, 2, 2):
            watch.take(LogBatch(NAME, attempt, 0, 0, 1, (LogChunk(OUT, 7.0, OOM),)))
            await watch.settle()
    assert [finding.attempt for finding in bus.findings] == [1, 2]


async def test_much_output_is_looked_at_before_it_is_stored() -> None:
    bus = await bus_with()
    async with watch_on(bus) as watch:
        for number in range(8):
            watch.take(printed(b"x" * 100_000 + b"\n", OOM, first_seq=2 * number))
        async with asyncio.timeout(LIMIT_S):
            while not bus.findings:
                await asyncio.sleep(0)
    assert len(bus.findings) == 1


@pytest.mark.parametrize("refusals", [0, 3])
async def test_a_finding_is_told_before_its_line_counts_as_stored(refusals: int) -> None:
    bus = await bus_with(refusals=refusals)
    watch = PatternWatch(context_on(bus, clock := FakeClock()), ())
    await watch.learn(NAME)
    watch.take(printed(OOM))
    settling = asyncio.ensure_future(watch.settle())
    async with asyncio.timeout(LIMIT_S):
        while not settling.done():
            clock.advance(1.0)
            await asyncio.sleep(0)
    assert len(bus.findings) == 1
