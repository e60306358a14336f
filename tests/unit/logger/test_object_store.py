"""A logger that moves its segments to object storage, whatever happens to it meanwhile."""

import asyncio
from pathlib import Path

import pytest

from gpuyard.bus.memory import MemoryBus
from gpuyard.contracts.errors import Failure, InvalidSpec
from gpuyard.contracts.log import LogPage, LogQuery, partition_of
from gpuyard.contracts.subjects import LOGS_STREAM, REJECTS_STREAM, SEGMENTS_STREAM, STATE_STREAM
from gpuyard.runtime.service import Context
from gpuyard_logger.blobs import Objects
from gpuyard_logger.config import ObjectsConfig
from gpuyard_logger.object_store import ObjectStore
from tests.unit.logger.batches import batch, seqs
from tests.unit.logger.keeping import BUSY, MONTH, OLD, RUNS, YOUNG, metric, printed, record
from tests.unit.logger.running import LIMIT_S, ask, records, running, until, write

MEMORY = ObjectsConfig(url="memory:///", after_s=0.0, min_bytes=0)
NEVER = ObjectsConfig(url="memory:///", after_s=1e9)
PARTITION = partition_of(OLD)


class Unsteady:
    """Object storage that can be out of order."""

    def __init__(self) -> None:
        self.is_broken = False
        self.refused = 0
        self._store = ObjectStore(MEMORY)

    def of(self, partition: int) -> Objects:
        return _UnsteadyFolder(self, self._store.of(partition))


class _UnsteadyFolder:
    def __init__(self, store: Unsteady, folder: Objects) -> None:
        self._store = store
        self._folder = folder

    def put(self, segment: str, path: Path) -> None:
        self._check()
        self._folder.put(segment, path)

    def read(self, segment: str, offset: int, size_bytes: int) -> bytes:
        self._check()
        return self._folder.read(segment, offset, size_bytes)

    def size_bytes(self, segment: str) -> int:
        self._check()
        return self._folder.size_bytes(segment)

    def names(self) -> frozenset[str]:
        self._check()
        return self._folder.names()

    def remove(self, segment: str) -> None:
        self._check()
        self._folder.remove(segment)

    def _check(self) -> None:
        if self._store.is_broken:
            self._store.refused += 1
            raise OSError("object storage: 503 Slow Down")


@pytest.fixture
async def bus() -> MemoryBus:
    made = MemoryBus()
    await made.ensure((STATE_STREAM, LOGS_STREAM, REJECTS_STREAM, SEGMENTS_STREAM))
    return made


@pytest.fixture
def store() -> Unsteady:
    return Unsteady()


async def all_moved(bus: MemoryBus, folder: Path) -> None:
    """Wait until every segment is in object storage, and none on the disk."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            holders = [segment.holder for segment in (await records(bus)).values()]
            if holders and not any(holders) and not list(folder.glob("segments/*")):
                return
            await asyncio.sleep(0.001)


async def has_all(bus: MemoryBus, *jobs: str) -> bool:
    pages = [await ask(bus, LogQuery(job)) for job in jobs]
    return all(isinstance(page, LogPage) and seqs(page.batches) == list(range(10)) for page in pages)


async def stored(bus: MemoryBus, context: Context) -> None:
    await printed(bus, OLD, YOUNG, RUNS)
    await until(lambda: metric(context, "gpuyard_logger_lines_total") == 30)


async def test_segments_move_and_their_lines_stay_readable(
    bus: MemoryBus, store: Unsteady, tmp_path: Path
) -> None:
    async with running(bus, tmp_path, places=store, objects=MEMORY, **BUSY) as context:
        await stored(bus, context)
        await all_moved(bus, tmp_path)
        assert await has_all(bus, OLD, YOUNG, RUNS)
        assert store.of(PARTITION).names() == (await records(bus)).keys()
        assert metric(context, "gpuyard_logger_moved_segments_total") >= 1
    async with running(bus, tmp_path / "other", places=store, objects=NEVER, **BUSY):
        assert await has_all(bus, OLD, YOUNG, RUNS)


async def test_what_is_dropped_leaves_the_storage_too(
    bus: MemoryBus, store: Unsteady, tmp_path: Path
) -> None:
    for job, ended in ((OLD, 40.0), (YOUNG, 1.0), (RUNS, None)):
        await record(bus, job, ended)
    async with running(bus, tmp_path, places=store, objects=MEMORY, **BUSY) as context:
        await stored(bus, context)
        await all_moved(bus, tmp_path)
        assert await has_all(bus, OLD)
    async with running(bus, tmp_path, places=store, objects=MEMORY, keep=MONTH, **BUSY):
        await until_failure(bus, OLD)
        await record(bus, YOUNG, 40.0)
    (tmp_path / "index.sqlite").unlink()
    async with running(bus, tmp_path, places=store, objects=MEMORY, keep=MONTH, **BUSY):
        await until_failure(bus, YOUNG)
        assert await has_all(bus, RUNS)
        await record(bus, RUNS, 40.0)
    (tmp_path / "index.sqlite").unlink()
    async with running(bus, tmp_path, places=store, objects=MEMORY, keep=MONTH, **BUSY):
        await until_failure(bus, RUNS)
        await until(lambda: not store.of(PARTITION).names())
        assert await records(bus) == {}


async def test_an_object_that_is_mostly_dropped_is_written_anew(
    bus: MemoryBus, store: Unsteady, tmp_path: Path
) -> None:
    await record(bus, OLD, 40.0)
    await write(bus, [batch(0, 5000, job=OLD, end=True), batch(0, 10, job=YOUNG, at_s=2e9)])
    async with running(bus, tmp_path, places=store, objects=MEMORY, **BUSY):
        await all_moved(bus, tmp_path)
    large_bytes = sum(map(store.of(PARTITION).size_bytes, store.of(PARTITION).names()))
    async with running(bus, tmp_path, places=store, objects=MEMORY, keep=MONTH, **BUSY):
        await until_failure(bus, OLD)
        async with asyncio.timeout(LIMIT_S):
            while any(segment.dropped_bytes for segment in (await records(bus)).values()):
                await asyncio.sleep(0.001)
        await all_moved(bus, tmp_path)
        await until(lambda: len(store.of(PARTITION).names()) == 1)
        assert sum(map(store.of(PARTITION).size_bytes, store.of(PARTITION).names())) < large_bytes / 10
        assert await has_all(bus, YOUNG)


async def test_storage_out_of_order_costs_nothing_but_time(
    bus: MemoryBus, store: Unsteady, tmp_path: Path
) -> None:
    store.is_broken = True
    async with running(bus, tmp_path, places=store, objects=MEMORY, **BUSY) as context:
        await stored(bus, context)
        await until(lambda: metric(context, "gpuyard_logger_object_errors_total") >= 2)
        assert "503" in str(context.health.notes["objects"])
        assert context.health.is_ready
        assert await has_all(bus, OLD, YOUNG, RUNS)
        store.is_broken = False
        await all_moved(bus, tmp_path)
        await until(lambda: context.health.notes["objects"] == "memory:///")
        store.is_broken = True
        answer = await ask(bus, LogQuery(OLD))
        assert isinstance(answer, Failure)
        assert (answer.code, answer.retryable) == ("unavailable", True)
        assert "503" in answer.message
        store.is_broken = False
        assert await has_all(bus, OLD, YOUNG, RUNS)


async def test_a_move_that_was_interrupted_leaves_no_object_behind(
    bus: MemoryBus, store: Unsteady, tmp_path: Path
) -> None:
    async with running(bus, tmp_path, **BUSY) as context:
        await stored(bus, context)
        await until_recorded(bus)
    for file in tmp_path.glob("segments/*.seg"):
        store.of(PARTITION).put(file.stem, file)
    async with running(bus, tmp_path, places=store, objects=NEVER, **BUSY):
        await until(lambda: not store.of(PARTITION).names())
        assert await has_all(bus, OLD, YOUNG, RUNS)


async def test_a_file_whose_segment_has_moved_goes_at_the_next_start(
    bus: MemoryBus, store: Unsteady, tmp_path: Path
) -> None:
    settings = BUSY | {"readers_s": 600.0}
    async with running(bus, tmp_path, places=store, objects=MEMORY, **settings) as context:
        await stored(bus, context)
        await until(lambda: metric(context, "gpuyard_logger_moved_segments_total") >= 1)
        await until_recorded(bus, holder="")
        assert list(tmp_path.glob("segments/*.seg"))
    async with running(bus, tmp_path, places=store, objects=NEVER, **settings):
        assert not list(tmp_path.glob("segments/*.seg"))
        assert await has_all(bus, OLD, YOUNG, RUNS)


async def test_objects_bring_their_records_back_when_the_bus_lost_them(
    bus: MemoryBus, store: Unsteady, tmp_path: Path
) -> None:
    async with running(bus, tmp_path / "one", places=store, objects=MEMORY, **BUSY) as context:
        await stored(bus, context)
        await all_moved(bus, tmp_path / "one")
    for stream in (SEGMENTS_STREAM, LOGS_STREAM):
        await bus.trim(stream)
    async with running(bus, tmp_path / "two", places=store, objects=NEVER, **BUSY):
        async with asyncio.timeout(LIMIT_S):
            while not await has_all(bus, OLD, YOUNG, RUNS):
                await asyncio.sleep(0.001)


def test_what_did_not_arrive_as_it_was_sent_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100)
    folder = ObjectStore(MEMORY).of(0)
    with monkeypatch.context() as patch:
        patch.setattr("gpuyard_logger.object_store.obstore.head", lambda *_: {"size": 99, "e_tag": None})
        with pytest.raises(OSError, match="not in the object storage as it was sent"):
            folder.put("0a" * 16, file)
    monkeypatch.setattr("gpuyard_logger.object_store.obstore.get_range", lambda *_, **__: b"y" * 100)
    with pytest.raises(OSError, match="reads differently"):
        folder.put("0a" * 16, file)


@pytest.mark.parametrize("url", ["", "no-url", "ftp://host/place", "s3://"])
def test_a_url_that_can_not_be_used_is_told(url: str) -> None:
    with pytest.raises(InvalidSpec, match=r"\[logger.objects\]"):
        ObjectStore(ObjectsConfig(url=url))


def test_an_unknown_option_is_told() -> None:
    with pytest.raises(InvalidSpec, match="no_such"):
        ObjectStore(ObjectsConfig(url="s3://bucket", options={"no_such": "x"}))


async def until_failure(bus: MemoryBus, job: str) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not isinstance(answer := await ask(bus, LogQuery(job)), Failure):
            await asyncio.sleep(0.001)
    assert answer.code == "not_found", answer


async def until_recorded(bus: MemoryBus, holder: str | None = None) -> None:
    """Wait until all thirty lines are in recorded segments, with this holder if it is given."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            segments = [s for s in (await records(bus)).values() if holder in (None, s.holder)]
            if sum(row.next_seq - row.first_seq for s in segments for row in s.rows if not row.kind) == 30:
                return
            await asyncio.sleep(0.001)
