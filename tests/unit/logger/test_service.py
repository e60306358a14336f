import asyncio
import errno
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.memory_log import Log
from gpuyard.bus.port import From
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure
from gpuyard.contracts.log import LogBatch, LogPage, LogQuery, partition_of
from gpuyard.contracts.rejected import Rejected
from gpuyard.contracts.subjects import LOG, LOGS_STREAM, REJECTS_STREAM
from gpuyard.runtime.clock import FakeClock
from gpuyard.runtime.service import Context
from gpuyard_logger.folder import Folder
from tests.unit.logger.batches import JOB, batch, raw, seqs
from tests.unit.logger.disks import FullDisk
from tests.unit.logger.running import (
    ask,
    new_bus,
    records,
    running,
    stored_through,
    subject_of,
    until,
    with_streams,
    write,
)

PARTITION = partition_of(JOB)


def metric(context: Context, name: str) -> float:
    lines = context.metrics.render().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


async def first_kept(bus: MemoryBus) -> int:
    """The sequence of the first message that is left in the stream."""
    await bus.append(
        LOG(partition=PARTITION, job=JOB, attempt=9, rank=9),
        encode(batch(0, 0, attempt=9, rank=9, end=True)),
    )
    async with bus.read(LOGS_STREAM, start=From.FIRST) as reader:
        return (await anext(reader)).seq


async def until_trimmed(bus: MemoryBus, before_seq: int) -> None:
    async with asyncio.timeout(60):
        while await first_kept(bus) < before_seq:
            await asyncio.sleep(0.001)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


async def test_lines_are_stored_and_given_out(tmp_path: Path) -> None:
    bus = await new_bus()
    await write(bus, [batch(0, 5)])
    async with running(bus, tmp_path) as context:
        seq = await write(bus, [batch(5, 9, end=True), batch(5, 9, end=True)])
        page = await stored_through(bus, seq, LogQuery(JOB))
        assert seqs(page.batches) == list(range(9))
        assert page.ended == (0,)
        assert page.through_seq == seq
        assert metric(context, "gpuyard_logger_lines_total") == 9
        assert metric(context, "gpuyard_logger_repeated_batches_total") == 1
        assert metric(context, "gpuyard_logger_query_seconds_count") >= 1


async def test_lines_are_given_out_before_they_are_sealed(tmp_path: Path) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path, seal_s=600) as context:
        page = await stored_through(bus, await write(bus, [batch(0, 5)]), LogQuery(JOB))
        assert seqs(page.batches) == list(range(5))
        assert metric(context, "gpuyard_logger_open_bytes") > 0
        assert metric(context, "gpuyard_logger_open_seconds") > 0
        assert await records(bus) == {}


async def test_what_is_sealed_is_open_no_more(tmp_path: Path) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path) as context:
        await write(bus, [batch(0, 5)])
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") == 1)
        assert metric(context, "gpuyard_logger_open_bytes") == 0
        assert metric(context, "gpuyard_logger_open_seconds") == 0
        (segment,) = (await records(bus)).values()
        assert [(row.job, row.rank, row.first_seq, row.next_seq) for row in segment.rows] == [(JOB, 0, 0, 5)]


async def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path) as context:
        await write(bus, [batch(0, 5)])
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") == 1)
    seq = await write(bus, [batch(5, 7)])
    async with running(bus, tmp_path) as context:
        page = await stored_through(bus, seq, LogQuery(JOB))
        assert seqs(page.batches) == list(range(7))
        assert metric(context, "gpuyard_logger_lines_total") == 2


async def test_a_gap_is_counted(tmp_path: Path) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path) as context:
        page = await stored_through(bus, await write(bus, [batch(0, 5), batch(8, 9)]), LogQuery(JOB))
        assert seqs(page.batches) == [0, 1, 2, 3, 4, 8]
        assert metric(context, "gpuyard_logger_missing_lines_total") == 3


@pytest.mark.parametrize(
    ("subject", "payload"),
    [
        (LOG(partition=PARTITION, job=JOB, attempt=1, rank=0), b"\xc1 not MessagePack"),
        (LOG(partition=PARTITION, job=JOB, attempt=1, rank=1), encode(batch(0, 3))),
        (LOG(partition=(PARTITION + 1) % 8, job=JOB, attempt=1, rank=0), encode(batch(0, 3))),
        (LOG(partition=PARTITION, job=JOB, attempt=1, rank=0), encode(raw(b"a\n", next_seq=5))),
        (f"gpuyard.log.{PARTITION}.NO-ID.one.two", encode(batch(0, 3))),
    ],
    ids=["garbage", "other rank's", "other partition's", "wrong count", "odd subject"],
)
async def test_what_can_not_be_read_is_set_aside(tmp_path: Path, subject: str, payload: bytes) -> None:
    bus = await new_bus()
    await bus.append(subject, payload)
    seq = await write(bus, [batch(0, 2)])
    async with running(bus, tmp_path):
        page = await stored_through(bus, seq, LogQuery(JOB))
        assert seqs(page.batches) == [0, 1]
        async with bus.read(REJECTS_STREAM) as reader:
            rejected = decode((await anext(reader)).payload, Rejected)
        assert (rejected.subject, rejected.payload) == (subject, payload)


async def test_bad_questions_get_a_failure_and_harm_nobody(tmp_path: Path) -> None:
    bus = await new_bus()
    await write(bus, [batch(0, 2)])
    async with running(bus, tmp_path):
        for question in (b"", b"\x00", encode(LogQuery("../../etc")), encode(LogQuery(JOB, max_bytes=10**9))):
            failure = await ask(bus, question)
            assert isinstance(failure, Failure)
            assert failure.code == "invalid"
        assert isinstance(await ask(bus, LogQuery(JOB)), LogPage)


async def test_a_disk_that_can_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    bus = await new_bus()
    async with running(bus, tmp_path) as context:
        await write(bus, [batch(0, 2)])
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") == 1)
        with monkeypatch.context() as patch:
            patch.setattr(Folder, "read", broken)
            failure = await ask(bus, LogQuery(JOB))
            assert isinstance(failure, Failure)
            assert (failure.code, failure.retryable) == ("unavailable", True)
        assert isinstance(await ask(bus, LogQuery(JOB)), LogPage)


async def test_a_question_without_address_is_left(tmp_path: Path) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path):
        await bus.publish("gpuyard.query.logs", encode(LogQuery(JOB)))
        assert isinstance(await ask(bus, LogQuery(JOB)), LogPage)


async def test_a_full_disk_holds_everything_back_and_nothing_is_lost(
    tmp_path: Path, full_disk: FullDisk
) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path, trim_interval_s=0.001, keep_s=0, keep_bytes=0) as context:
        full_disk.fill()
        await write(bus, [batch(0, 5)])
        await until(lambda: full_disk.refused >= 2)
        seq = await write(bus, [batch(5, 9)])
        await until(lambda: not context.health.is_ready)
        assert "No space left" in context.health.why
        assert metric(context, "gpuyard_logger_store_errors_total") >= 2
        assert seqs((await stored_through(bus, seq, LogQuery(JOB))).batches) == list(range(9))
        assert await first_kept(bus) == 1
        assert await records(bus) == {}
        full_disk.empty()
        await until_trimmed(bus, seq + 1)
        await until(lambda: context.health.is_ready)
        assert seqs((await stored_through(bus, seq, LogQuery(JOB, attempt=1))).batches) == list(range(9))


async def test_a_full_disk_fills_no_memory(tmp_path: Path, full_disk: FullDisk) -> None:
    bus = await new_bus()
    full_disk.fill()
    async with running(bus, tmp_path, open_bytes=4096) as context:
        await write(bus, [batch(first, first + 100) for first in range(0, 10_000, 100)])
        await until(lambda: full_disk.refused >= 2)
        assert metric(context, "gpuyard_logger_lines_total") < 1000
        full_disk.empty()
        await until(lambda: metric(context, "gpuyard_logger_lines_total") == 10_000)


async def test_the_stream_is_trimmed_behind_the_store_when_followers_had_their_time(tmp_path: Path) -> None:
    bus, clock = await new_bus(), FakeClock()
    seq = await write(bus, [batch(0, 5), batch(5, 9)])
    async with running(bus, tmp_path, clock, keep_s=60, trim_interval_s=5, lease_s=600) as context:
        await stored_through(bus, seq, LogQuery(JOB))
        clock.advance(1.0)
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") == 1)
        clock.advance(58.0)
        assert await first_kept(bus) == 1
        clock.advance(6.0)
        await until_trimmed(bus, seq + 1)


async def test_a_long_follow_buffer_is_cut_to_its_size(tmp_path: Path) -> None:
    bus = await new_bus()
    async with running(bus, tmp_path, keep_bytes=1000, trim_interval_s=0.001):
        for first in range(0, 500, 10):
            seq = await write(bus, [batch(first, first + 10)])
            await stored_through(bus, seq, LogQuery(JOB, tail=0))
        await until_trimmed(bus, seq - 8)


class ForgetfulBus(MemoryBus):
    """Its server loses the LOGS stream when told so."""

    def lose(self) -> None:
        self._logs[LOGS_STREAM.name].last_seq = 0
        self._logs[LOGS_STREAM.name].trim("", None)
        self.wake()

    def lose_unnoticed(self, next_one: LogBatch) -> None:
        """Lose everything and take a new message before any reader looks."""
        log = self._logs[LOGS_STREAM.name] = Log(LOGS_STREAM)
        log.append(subject_of(next_one), encode(next_one), {}, now_s=self.now())


async def test_a_stream_that_counts_anew_is_not_trimmed_by_old_numbers(tmp_path: Path) -> None:
    bus, clock = await with_streams(ForgetfulBus()), FakeClock()
    async with running(bus, tmp_path, clock, keep_s=0, trim_interval_s=5, lease_s=600) as context:
        seq = await write(bus, [batch(seq, seq + 1) for seq in range(50)])
        await stored_through(bus, seq, LogQuery(JOB, tail=0))
        clock.advance(1.0)
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") == 1)
        bus.lose_unnoticed(batch(50, 51))
        for _ in range(5):
            clock.advance(5.0)
            await asyncio.sleep(0)
        assert await first_kept(bus) == 1


async def test_a_stream_that_lost_data_is_read_anew(tmp_path: Path) -> None:
    bus = await with_streams(ForgetfulBus())
    async with running(bus, tmp_path) as context:
        await stored_through(bus, await write(bus, [batch(0, 5), batch(5, 6)]), LogQuery(JOB))
        bus.lose()
        await write(bus, [batch(6, 9)])
        await until(lambda: metric(context, "gpuyard_logger_lines_total") == 9)
        page = await stored_through(bus, 1, LogQuery(JOB))
        assert (page.through_seq, seqs(page.batches)) == (1, list(range(9)))


async def test_a_stream_read_anew_is_not_trimmed_by_rounds_from_before(tmp_path: Path) -> None:
    bus, clock = await with_streams(ForgetfulBus()), FakeClock()
    async with running(bus, tmp_path, clock, keep_s=60, trim_interval_s=5, lease_s=600) as context:
        seq = await write(bus, [batch(seq, seq + 1) for seq in range(50)])
        await stored_through(bus, seq, LogQuery(JOB, tail=0))
        clock.advance(1.0)
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") == 1)
        bus.lose()
        await write(bus, [batch(50, 51)])
        clock.advance(1.0)  # it reads again after a pause
        await until(lambda: metric(context, "gpuyard_logger_lines_total") == 51)
        clock.advance(1.0)
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") == 2)
        clock.advance(61.0 - 2.0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert await first_kept(bus) == 1


async def test_the_first_batch_and_the_end_of_a_rank_are_traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("gpuyard.telemetry.traces._tracer", provider.get_tracer("test"))
    trace_id = 0xABCD
    headers = {"traceparent": f"00-{trace_id:032x}-{1:016x}-01"}
    bus = await new_bus()
    async with running(bus, tmp_path):
        for one in (batch(0, 5), batch(5, 9), batch(9, 9, end=True)):
            await write(bus, [one], headers)
        await until(lambda: len(exporter.get_finished_spans()) == 2)
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["logger.persist"] * 2
    assert {span.context.trace_id for span in spans if span.context} == {trace_id}
    assert trace.INVALID_SPAN_ID not in {span.parent.span_id for span in spans if span.parent}


async def test_a_large_backlog_is_sealed_in_rounds(tmp_path: Path) -> None:
    bus = await new_bus()
    seq = await write(bus, [batch(first, first + 10) for first in range(0, 3000, 10)])
    async with running(bus, tmp_path, open_bytes=2000, seal_s=600) as context:
        page = await stored_through(bus, seq, LogQuery(JOB))
        assert seqs(page.batches) == list(range(3000))
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") > 5)
