"""Reading stored output and following it: a logger of its own, on a nats-server of its own."""

import asyncio
import os
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from gpuyard.bus.nats_bus import NatsBus, connect
from gpuyard.client.follow import follow
from gpuyard.client.pages import pages
from gpuyard.contracts.codec import encode
from gpuyard.contracts.log import OUT, LogBatch, LogChunk, LogQuery, partition_of
from gpuyard.contracts.subjects import LOG, STREAMS
from gpuyard_logger.core.frame import RAW_BYTES, Packed, pack
from gpuyard_logger.core.layout import Sealed, Stream
from gpuyard_logger.folder import Folder
from gpuyard_logger.sealing import write_segment
from tests.bench.figures import Figure, percentile
from tests.integration.logger_process import LoggerProcess
from tests.natsd import NatsServer

RANKS = 8
LINES = 10_000_000
FOLLOWERS = 10
LINES_PER_S = 10_000
SECONDS = 5
RUNS = 3
_STORED, _LIVE = "bench-stored", "bench-live"
_HOLDER = "logger-bench"
_SEGMENT_FRAMES = 100
_BATCH_S = 0.05
_TAILS = 10
_ABSENT = "CUDA out of memory"


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="gy-logs-") as name:
        folder = Path(name)
        raw_bytes = await asyncio.to_thread(_fill, folder / "store")
        async with _running(folder) as (bus, logger):
            figures = [
                await _tail(bus, "last 100 lines of 8 ranks, of 10 million lines, p90"),
                *await _grep(bus, logger, raw_bytes),
                await _lag(bus, "follow lag at 10,000 lines/s with 10 followers, p99", ("under 200 ms", 200)),
            ]
            searches = asyncio.create_task(_search_on(bus))
            figures += [
                await _tail(bus, "the same last lines while a search runs"),
                await _lag(bus, "the same follow lag while a search runs"),
            ]
            searches.cancel()
            await asyncio.wait((searches,))
            return figures


# A store of ten million lines


def _fill(store: Path) -> int:
    """Lay a job's segments down as a logger does; the bytes of their text."""
    folder = Folder(store / "segments")
    (store / "logger").write_text(f"{_HOLDER}\n")
    waiting: list[Packed] = []
    raw_bytes = 0
    for frame in _frames(LINES // RANKS):
        waiting.append(frame)
        raw_bytes += RANKS * frame.entry.raw_bytes
        if len(waiting) == _SEGMENT_FRAMES:
            _write(folder, waiting)
            waiting = []
    _write(folder, waiting)
    return raw_bytes


def _frames(lines: int) -> Iterator[Packed]:
    """Output of one rank, a hundred lines a second; the ranks all print the same."""
    chance = random.Random(1)
    start_s = time.time() - lines / 100
    chunks: list[LogChunk] = []
    size_bytes = first = 0
    for step in range(0, lines, 50):
        data = b"".join(_line(number, chance) for number in range(step, step + 50))
        chunks.append(LogChunk(OUT, start_s + step / 100, data))
        size_bytes += len(data)
        if size_bytes >= RAW_BYTES or step + 50 >= lines:
            yield pack(first, chunks)
            first, chunks, size_bytes = step + 50, [], 0


def _line(step: int, chance: random.Random) -> bytes:
    loss, speed = chance.random(), chance.random() * 1000
    return b"INFO trainer: epoch %d step %d/1250000 loss=%.4f lr=0.000300 img/s %.1f mem 61.2/79.2 GB\n" % (
        step // 100_000,
        step,
        loss,
        speed,
    )


def _write(folder: Folder, frames: list[Packed]) -> None:
    after = frames[-1].entry.next_seq
    parts = [Sealed(Stream(_STORED, 1, rank), frames, after, ended=False, at_s=0.0) for rank in range(RANKS)]
    write_segment(folder, parts, partition=partition_of(_STORED), holder=_HOLDER, at_s=time.time())


@asynccontextmanager
async def _running(folder: Path) -> AsyncIterator[tuple[NatsBus, LoggerProcess]]:
    """A server and a logger that has taken in what lies in its folder."""
    with NatsServer(folder / "natsd") as server:
        async with connect(server.url, "bench") as bus:
            await bus.ensure(STREAMS)
            logger = LoggerProcess(folder, server.url, folder / "store")
            try:
                await logger.start()
                yield bus, logger
            finally:
                logger.end()


# Figures


async def _tail(bus: NatsBus, name: str) -> Figure:
    runs = []
    for _ in range(RUNS):
        waits_ms = [await _tail_ms(bus) for _ in range(_TAILS)]
        runs.append(percentile(waits_ms, 90))
    return Figure(name, "ms", tuple(runs), "under 100 ms", 100)


async def _tail_ms(bus: NatsBus) -> float:
    begun_s = time.perf_counter()
    lines = [line async for line in follow(bus, _STORED, tail=100, live=False, expected_ranks=RANKS)]
    assert len(lines) == 100 * RANKS, len(lines)
    return (time.perf_counter() - begun_s) * 1000


async def _grep(bus: NatsBus, logger: LoggerProcess, raw_bytes: int) -> list[Figure]:
    rates = {
        "a text": _ABSENT,
        "an expression": r"step 7777\d\d/.*loss=0\.0",
        "one of three words": "error|warn|fatal",
    }
    figures = []
    for what, pattern in rates.items():
        runs = tuple([await _mb_per_cpu_s(bus, logger, pattern, raw_bytes) for _ in range(RUNS)])
        name = f"search 10 million lines for {what}, per core"
        promise, limit = ("at least 500 MB/s", 500.0) if pattern == _ABSENT else ("", None)
        figures.append(Figure(name, "MB/s", runs, promise, limit, more_is_better=True))
    return figures


async def _mb_per_cpu_s(bus: NatsBus, logger: LoggerProcess, pattern: str, raw_bytes: int) -> float:
    before_s = _cpu_s(logger.pid)
    scanned_bytes = 0
    async for page in pages(bus, LogQuery(_STORED, grep=pattern), tries=3):
        scanned_bytes += page.scanned_bytes
    assert scanned_bytes > 0.9 * raw_bytes, "a search looks at all text"
    return raw_bytes / 1e6 / (_cpu_s(logger.pid) - before_s)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _lag(bus: NatsBus, name: str, promise: tuple[str, float | None] = ("", None)) -> Figure:
    runs = []
    for number in range(RUNS):
        job = f"{_LIVE}-{number}-{'promised' if promise[0] else 'busy'}"
        following = [asyncio.create_task(_lags_ms(bus, job)) for _ in range(FOLLOWERS)]
        await asyncio.gather(*(_print(bus, job, rank) for rank in range(RANKS)))
        lags_ms = [lag for each in await asyncio.gather(*following) for lag in each]
        assert len(lags_ms) == FOLLOWERS * RANKS * _batches() * _per_batch(), len(lags_ms)
        runs.append(percentile(lags_ms, 99))
    return Figure(name, "ms", tuple(runs), *promise)


async def _search_on(bus: NatsBus) -> None:
    while True:
        async for _ in pages(bus, LogQuery(_STORED, grep=_ABSENT), tries=3):
            pass


def _batches() -> int:
    return round(SECONDS / _BATCH_S)


def _per_batch() -> int:
    return round(LINES_PER_S / RANKS * _BATCH_S)


async def _print(bus: NatsBus, job: str, rank: int) -> None:
    """Append batches as an executor does, at a steady pace."""
    subject = LOG(partition=partition_of(job), job=job, attempt=1, rank=rank)
    begun_s = time.time() + rank * _BATCH_S / RANKS
    for number in range(_batches()):
        await asyncio.sleep(max(0.0, begun_s + number * _BATCH_S - time.time()))
        first, after = number * _per_batch(), (number + 1) * _per_batch()
        data = b"".join(b"step %d loss 0.1234 lr 0.001 img/s 512.0\n" % step for step in range(first, after))
        end = number + 1 == _batches()
        chunk = LogChunk(OUT, time.time(), data)
        await bus.append(subject, encode(LogBatch(job, 1, rank, first, after, (chunk,), end=end)))


async def _lags_ms(bus: NatsBus, job: str) -> list[float]:
    return [(time.time() - line.at_s) * 1000 async for line in follow(bus, job, expected_ranks=RANKS)]
