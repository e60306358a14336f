import asyncio
import errno
from collections.abc import Sequence
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
from gpuyard.runtime.clock import FakeClock, SystemClock
from gpuyard.runtime.service import Context
from gpuyard_logger.file_store import FileStore
from gpuyard_logger.memory_store import MemoryStore
from gpuyard_logger.store import Stored
from tests.unit.logger.batches import JOB, batch, raw, seqs
from tests.unit.logger.running import ask, new_bus, running, stored_through, subject_of, until, write


def metric(context: Context, name: str) -> float:
    lines = context.metrics.render().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


async def first_kept(bus: MemoryBus) -> int:
    """The sequence of the first message that is left in the stream."""
    await bus.append(
        LOG(partition=partition_of(JOB), job=JOB, attempt=9, rank=9),
        encode(batch(0, 0, attempt=9, rank=9, end=True)),
    )
    async with bus.read(LOGS_STREAM, start=From.FIRST) as reader:
        return (await anext(reader)).seq


class BrokenStore(MemoryStore):
    """A store whose disk is full until it is mended."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = True
        self.refused = 0

    def append(self, batches: Sequence[LogBatch]) -> Stored:
        if self.is_broken:
            self.refused += 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().append(batches)

    def attempts(self, job: str) -> Sequence[int]:
        if job == "unreadable":
            raise OSError(errno.EIO, "Input/output error")
        return super().attempts(job)


async def test_lines_are_stored_and_given_out() -> None:
    bus = await new_bus()
    await write(bus, [batch(0, 5)])
    async with running(bus, MemoryStore()) as context:
        seq = await write(bus, [batch(5, 9, end=True), batch(5, 9, end=True)])
        page = await stored_through(bus, seq, LogQuery(JOB))
        assert seqs(page.batches) == list(range(9))
        assert page.ended == (0,)
        assert page.through_seq == seq
        assert metric(context, "gpuyard_logger_lines_total") == 9
        assert metric(context, "gpuyard_logger_repeated_batches_total") == 1
        assert metric(context, "gpuyard_logger_lag_messages") == 0
        assert metric(context, "gpuyard_logger_query_seconds_count") >= 1


async def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    bus = await new_bus()
    async with running(bus, FileStore(tmp_path)):
        await stored_through(bus, await write(bus, [batch(0, 5)]), LogQuery(JOB))
    seq = await write(bus, [batch(5, 7)])
    async with running(bus, FileStore(tmp_path)) as context:
        page = await stored_through(bus, seq, LogQuery(JOB))
        assert seqs(page.batches) == list(range(7))
        assert metric(context, "gpuyard_logger_lines_total") == 2


async def test_a_gap_is_counted() -> None:
    bus = await new_bus()
    async with running(bus, MemoryStore()) as context:
        page = await stored_through(bus, await write(bus, [batch(0, 5), batch(8, 9)]), LogQuery(JOB))
        assert seqs(page.batches) == [0, 1, 2, 3, 4, 8]
        assert metric(context, "gpuyard_logger_missing_lines_total") == 3


@pytest.mark.parametrize(
    ("subject", "payload"),
    [
        (LOG(partition=partition_of(JOB), job=JOB, attempt=1, rank=0), b"\xc1 not MessagePack"),
        (LOG(partition=partition_of(JOB), job=JOB, attempt=1, rank=1), encode(batch(0, 3))),
        (LOG(partition=partition_of(JOB), job=JOB, attempt=1, rank=0), encode(raw(b"a\n", next_seq=5))),
        ("gpuyard.log.NO-ID.one.two", encode(batch(0, 3))),
    ],
    ids=["garbage", "other rank's", "wrong count", "odd subject"],
)
async def test_what_can_not_be_read_is_set_aside(subject: str, payload: bytes) -> None:
    bus = await new_bus()
    await bus.append(subject, payload)
    seq = await write(bus, [batch(0, 2)])
    async with running(bus, MemoryStore()):
        page = await stored_through(bus, seq, LogQuery(JOB))
        assert seqs(page.batches) == [0, 1]
        async with bus.read(REJECTS_STREAM) as reader:
            rejected = decode((await anext(reader)).payload, Rejected)
        assert (rejected.subject, rejected.payload) == (subject, payload)


async def test_bad_questions_get_a_failure_and_harm_nobody() -> None:
    bus = await new_bus()
    await write(bus, [batch(0, 2)])
    store = BrokenStore()
    store.is_broken = False
    async with running(bus, store):
        for question in (b"", b"\x00", encode(LogQuery("../../etc")), encode(LogQuery(JOB, max_bytes=10**9))):
            failure = await ask(bus, question)
            assert isinstance(failure, Failure)
            assert failure.code == "invalid"
        unreadable = await ask(bus, LogQuery("unreadable"))
        assert isinstance(unreadable, Failure)
        assert (unreadable.code, unreadable.retryable) == ("unavailable", True)
        assert isinstance(await ask(bus, LogQuery(JOB)), LogPage)


async def test_a_question_without_address_is_left() -> None:
    bus = await new_bus()
    async with running(bus, MemoryStore()):
        await bus.publish("gpuyard.query.logs", encode(LogQuery(JOB)))
        assert isinstance(await ask(bus, LogQuery(JOB)), LogPage)


async def test_a_full_disk_holds_everything_back_and_nothing_is_lost() -> None:
    bus, store = await new_bus(), BrokenStore()
    async with running(bus, store, trim_interval_s=0.001, keep_s=0, keep_bytes=0) as context:
        await write(bus, [batch(0, 5)])
        await until(lambda: store.refused >= 2)
        seq = await write(bus, [batch(5, 9)])
        assert not context.health.is_ready
        assert "No space left" in context.health.why
        assert metric(context, "gpuyard_logger_store_errors_total") >= 2
        page = await ask(bus, LogQuery(JOB))
        assert isinstance(page, LogPage)
        assert (page.attempt, page.through_seq) == (0, 0)
        assert await first_kept(bus) == 1
        store.is_broken = False
        assert seqs((await stored_through(bus, seq, LogQuery(JOB, attempt=1))).batches) == list(range(9))
        assert context.health.is_ready


async def test_the_stream_is_trimmed_behind_the_store_when_followers_had_their_time() -> None:
    bus, clock = await new_bus(), FakeClock()
    seq = await write(bus, [batch(0, 5), batch(5, 9)])
    async with running(bus, MemoryStore(), clock, keep_s=60, trim_interval_s=5):
        await stored_through(bus, seq, LogQuery(JOB))
        clock.advance(59.0)
        assert await first_kept(bus) == 1
        await stored_through(bus, seq + 1, LogQuery(JOB))
        clock.advance(5.0)
        await until_trimmed(bus, seq + 1)


async def test_a_long_follow_buffer_is_cut_to_its_size() -> None:
    bus = await new_bus()
    async with running(bus, MemoryStore(), keep_bytes=1000, trim_interval_s=0.001):
        for first in range(0, 500, 10):
            seq = await write(bus, [batch(first, first + 10)])
            await stored_through(bus, seq, LogQuery(JOB, tail=0))
        await until_trimmed(bus, seq - 8)
        assert await first_kept(bus) <= seq


async def until_trimmed(bus: MemoryBus, before_seq: int) -> None:
    async with asyncio.timeout(60):
        while await first_kept(bus) < before_seq:
            await asyncio.sleep(0.001)


async def test_a_stream_that_counts_anew_is_not_trimmed_by_old_numbers() -> None:
    bus, clock = ForgetfulBus(), FakeClock()
    async with running(bus, MemoryStore(), clock, keep_s=0, trim_interval_s=5):
        seq = await write(bus, [batch(seq, seq + 1) for seq in range(50)])
        await stored_through(bus, seq, LogQuery(JOB, tail=0))
        bus.lose_unnoticed(batch(50, 51))
        for _ in range(5):
            clock.advance(5.0)
            await asyncio.sleep(0)
        assert await first_kept(bus) == 1


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


async def test_a_stream_that_lost_data_is_read_anew() -> None:
    bus = ForgetfulBus()
    store = MemoryStore()
    async with running(bus, store, SystemClock()):
        await stored_through(bus, await write(bus, [batch(0, 5), batch(5, 6)]), LogQuery(JOB))
        bus.lose()
        await write(bus, [batch(6, 9)])
        async with asyncio.timeout(60):
            while store.positions(JOB, 1)[0].next_seq < 9:
                await asyncio.sleep(0.001)
        page = await stored_through(bus, 1, LogQuery(JOB))
        assert (page.through_seq, seqs(page.batches)) == (1, list(range(9)))


async def test_the_first_batch_and_the_end_of_a_rank_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("gpuyard.telemetry.traces._tracer", provider.get_tracer("test"))
    trace_id = 0xABCD
    headers = {"traceparent": f"00-{trace_id:032x}-{1:016x}-01"}
    bus = await new_bus()
    async with running(bus, MemoryStore()):
        for one in (batch(0, 5), batch(5, 9), batch(9, 9, end=True)):
            seq = await write(bus, [one], headers)
            await stored_through(bus, seq, LogQuery(JOB))
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["logger.persist"] * 2
    assert {span.context.trace_id for span in spans if span.context} == {trace_id}
    assert trace.INVALID_SPAN_ID not in {span.parent.span_id for span in spans if span.parent}


async def test_a_large_backlog_is_stored_in_rounds() -> None:
    bus = await new_bus()
    seq = await write(bus, [batch(first, first + 10) for first in range(0, 3000, 10)])
    async with running(bus, MemoryStore(), round_bytes=1000, round_messages=7):
        page = await stored_through(bus, seq, LogQuery(JOB))
        assert seqs(page.batches) == list(range(3000))
