"""Output gets to the bus exactly once, whatever the bus does and whenever the executor is killed."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.port import Appended, Message
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.log import LogBatch, lines_of, partition_of
from gpuyard.contracts.subjects import LOG, LOGS_STREAM, STREAMS, Stream
from gpuyard_executor.core.rank import OUT, RankKey, RankPlan
from gpuyard_executor.core.redaction import Redactor
from gpuyard_executor.log_wire import LogWire
from gpuyard_executor.memory_engine import MemoryEngine, Script
from gpuyard_executor.progress import ProgressFile
from gpuyard_executor.shipper import Shipper

KEY = RankKey("j1", 1, 0)
GENEROUS_S = 60.0


class Killed(Exception):
    """The executor ends here."""


@dataclass
class Faulty:
    """A bus that follows a list of faults: `lost` and `unsure` answer nothing, others kill the executor."""

    bus: MemoryBus = field(default_factory=MemoryBus)
    faults: list[str] = field(default_factory=list)
    batches: list[LogBatch] = field(default_factory=list)

    async def append(self, subject: str, payload: bytes, **options: Any) -> Appended:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "lost":
            raise Unavailable("no answer")
        if fault == "killed before":
            raise Killed
        appended = await self.bus.append(subject, payload, **options)
        if not appended.duplicate:
            self.batches.append(decode(payload, LogBatch))
        if fault.startswith("trimmed"):
            await self.bus.trim(LOGS_STREAM)
        if fault == "unsure":
            raise Unavailable("no answer")
        if fault.endswith("killed after"):
            raise Killed
        return appended

    async def last(self, stream: Stream, subject: str) -> Message | None:
        return await self.bus.last(stream, subject)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bus, name)


class Patient(LogWire):
    async def pause(self, tries: int, error: Exception) -> None:
        await asyncio.sleep(0)


def shipper(
    bus: Any,
    engine: MemoryEngine | None,
    home: Path,
    headers: Mapping[str, str] | None = None,
    *,
    secrets: Mapping[str, str] | None = None,
) -> Shipper:
    wire = Patient(bus, structlog.get_logger(), headers or {}, lambda _: None)
    return Shipper(KEY, engine, ProgressFile(home / "progress"), wire, Redactor(secrets or {}))


async def engine_with(*printed: tuple[int, bytes], code: int | None = 0) -> MemoryEngine:
    engine = MemoryEngine({"program": Script(printed, code)})
    await engine.prepare(RankPlan(KEY, ("program",), "/"))
    await engine.start(KEY, {})
    return engine


def check(batches: list[LogBatch], printed: list[tuple[int, bytes]]) -> None:
    lines = [line for batch in batches for line in lines_of(batch)]
    assert [line.seq for line in lines] == list(range(len(lines)))
    for stream in (0, 1):
        shipped = b"".join(
            chunk.data for batch in batches for chunk in batch.chunks if chunk.stream == stream
        )
        assert shipped == b"".join(data for where, data in printed if where == stream)
    assert [batch.end for batch in batches] == [False] * (len(batches) - 1) + [True]


FAULTS = st.lists(
    st.sampled_from(["", "lost", "unsure", "killed before", "killed after", "trimmed, killed after"]),
    max_size=12,
)
PRINTED = st.lists(
    st.tuples(st.integers(0, 1), st.text("ab\n", min_size=1, max_size=6).map(str.encode)), max_size=12
)


@settings(max_examples=200, deadline=None)
@given(PRINTED, FAULTS, st.integers(0, 12))
def test_exactly_once_whatever_happens(
    printed: list[tuple[int, bytes]], faults: list[str], early: int
) -> None:
    async def scenario(home: Path) -> None:
        bus = Faulty(faults=list(faults))
        await bus.bus.ensure(STREAMS)
        engine = await engine_with(*printed[:early], code=None)
        is_resumed = False
        rest = printed[early:]
        while True:
            shipping = asyncio.ensure_future(shipper(bus, engine, home).run(is_resumed=is_resumed))
            await asyncio.sleep(0)
            for stream, data in rest:
                engine.print(KEY, data, stream)
                await asyncio.sleep(0)
            if rest or not is_resumed:
                engine.finish(KEY)
            rest, is_resumed = [], True
            try:
                await asyncio.wait_for(shipping, GENEROUS_S)
            except Killed:
                continue
            break
        check(bus.batches, printed)

    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as home:
        patch.setattr("gpuyard_executor.shipper.LINGER_S", 0.0)
        asyncio.run(scenario(Path(home)))


async def test_a_rank_that_prints_nothing_has_an_end(tmp_path: Path) -> None:
    bus = Faulty()
    await bus.bus.ensure(STREAMS)
    await shipper(bus, await engine_with(), tmp_path).run(is_resumed=False)
    assert bus.batches == [LogBatch("j1", 1, 0, 0, 0, (), 0, True)]


async def test_a_rank_that_never_was_has_an_end(tmp_path: Path) -> None:
    bus = Faulty()
    await bus.bus.ensure(STREAMS)
    await shipper(bus, None, tmp_path).run(is_resumed=False)
    await shipper(bus, None, tmp_path).run(is_resumed=True)
    assert bus.batches == [LogBatch("j1", 1, 0, 0, 0, (), 0, True)]


async def test_the_first_line_does_not_wait(tmp_path: Path) -> None:
    bus = Faulty()
    await bus.bus.ensure(STREAMS)
    engine = await engine_with((OUT, b"first\n"), code=None)
    shipping = asyncio.ensure_future(shipper(bus, engine, tmp_path).run(is_resumed=False))
    async with asyncio.timeout(GENEROUS_S), bus.bus.read(LOGS_STREAM, ">") as reader:
        first = decode((await anext(reader)).payload, LogBatch)
    assert first.chunks[0].data == b"first\n"
    engine.finish(KEY)
    await asyncio.wait_for(shipping, GENEROUS_S)


async def test_the_trace_travels_along(tmp_path: Path) -> None:
    bus = Faulty()
    await bus.bus.ensure(STREAMS)
    trace = {"traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01"}
    await shipper(bus, await engine_with((OUT, b"x\n")), tmp_path, trace).run(is_resumed=False)
    newest = await bus.bus.last(LOGS_STREAM, LOG(partition=partition_of("j1"), job="j1", attempt=1, rank=0))
    assert newest
    assert newest.headers["traceparent"] == trace["traceparent"]


@pytest.mark.parametrize("faults", [[], ["killed before"], ["killed after"], ["", "trimmed, killed after"]])
async def test_a_secret_is_hidden_whenever_the_executor_is_killed(tmp_path: Path, faults: list[str]) -> None:
    bus = Faulty(faults=list(faults))
    await bus.bus.ensure(STREAMS)
    engine = await engine_with(
        (OUT, b"a s3cr"), (1, b"-----BEGIN PRIVATE KEY-----\n"), (OUT, b"et b\n"), code=None
    )
    is_resumed = False
    for _ in range(2):
        shipping = asyncio.ensure_future(
            shipper(bus, engine, tmp_path, secrets={"S": "s3cret"}).run(is_resumed=is_resumed)
        )
        while not bus.batches and not shipping.done():
            await asyncio.sleep(0.001)
        if not is_resumed:
            engine.print(KEY, b"QUJDREVGR0hJSktMTU5PUA==\n-----END PRIVATE KEY-----\n", 1)
            engine.finish(KEY)
        is_resumed = True
        with suppress(Killed):
            await asyncio.wait_for(shipping, GENEROUS_S)
            break
    shown = b"".join(chunk.data for batch in bus.batches for chunk in batch.chunks)
    assert shown.count(b"[redacted:S]") == 1
    assert shown.count(b"[redacted:private-key]") == 3
    assert b"s3cret" not in shown
    assert b"QUJD" not in shown


async def test_a_lost_directory_does_not_repeat_what_is_on_the_bus(tmp_path: Path) -> None:
    """As after a power cut: the bus knows more than the disk."""
    bus = Faulty(faults=["", "killed after"])
    await bus.bus.ensure(STREAMS)
    engine = await engine_with((OUT, b"one\n"), code=None)
    shipping = asyncio.ensure_future(shipper(bus, engine, tmp_path).run(is_resumed=False))
    while not bus.batches:
        await asyncio.sleep(0)
    engine.print(KEY, b"two\n")
    with pytest.raises(Killed):
        await asyncio.wait_for(shipping, GENEROUS_S)
    ProgressFile(tmp_path / "progress").remove()
    engine.finish(KEY)
    await shipper(bus, engine, tmp_path).run(is_resumed=True)
    check(bus.batches, [(OUT, b"one\n"), (OUT, b"two\n")])
