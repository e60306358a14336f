"""Torn writes and turned bits in segments and in the index: found, told, never served; the rest is read."""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random

import pytest

from gpuyard.bus.memory import MemoryBus
from gpuyard.contracts.log import LogLine, LogQuery
from gpuyard_logger.database import DamagedIndexError
from gpuyard_logger.shelf import Shelf
from tests.unit.logger.batches import JOB, batch, is_true_to_number, seqs
from tests.unit.logger.running import ask_page, new_bus, records, running, until, write
from tests.unit.logger.shelves import Store
from tests.unit.logger.test_service import metric

SEED = 11


@pytest.fixture
async def bus() -> MemoryBus:
    return await new_bus()


@pytest.fixture
async def store(tmp_path: Path, bus: MemoryBus) -> AsyncIterator[Store]:
    store = Store(tmp_path / "store", bus)
    yield store
    store.close()


def check(store: Store, expected: dict[int, int]) -> int:
    """What is read is true, and what is missing is told. Returns how many lines are missing."""
    missing = 0
    for rank, count in expected.items():
        store.damage.clear()
        found: list[LogLine] = store.lines(rank)
        assert is_true_to_number(found)
        told = {seq for one in store.damage for seq in range(one.first_seq, one.next_seq)}
        assert all(one.stream.rank == rank for one in store.damage)
        read = [line.seq for line in found]
        assert read == sorted(set(read))
        assert set(read) | told == set(range(count))
        missing += count - len(read)
    return missing


async def test_every_cut_of_a_segment_is_found(store: Store) -> None:
    await store.seal(batch(0, 3, rank=0), batch(5, 7, rank=0), batch(0, 4, rank=1))
    path = store.file_of(0)
    whole = path.read_bytes()
    end = store.rows(path.stem)[-1]
    lost = []
    for size_bytes in range(len(whole)):
        path.write_bytes(whole[:size_bytes])
        found = [line.seq for rank in (0, 1) for line in store.lines(rank)]
        assert is_true_to_number([line for rank in (0, 1) for line in store.lines(rank)])
        told = bool(store.damage)
        store.damage.clear()
        lost.append(9 - len(found))
        assert told == bool(lost[-1]), size_bytes
    assert lost[0] == 9
    assert lost == sorted(lost, reverse=True)
    assert not any(lost[end.offset + end.size_bytes :]), "behind the parts are only the segment's own rows"


async def test_every_turned_bit_of_a_segment_is_found(store: Store) -> None:
    await store.seal(batch(0, 3, rank=0), batch(0, 4, rank=1))
    path = store.file_of(0)
    whole = path.read_bytes()
    rows = store.rows(path.stem)
    for at in range(len(whole)):
        for bit in range(8):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            missing = check(store, {0: 3, 1: 4})
            hit = [row for row in rows if row.offset <= at < row.offset + row.size_bytes]
            assert missing == sum(row.next_seq for row in hit), (at, bit)


async def test_damage_of_one_frame_leaves_the_others(store: Store) -> None:
    await store.seal(batch(0, 5))
    await store.seal(batch(5, 9))
    await store.seal(batch(9, 12))
    path = store.file_of(5)
    data = path.read_bytes()
    path.write_bytes(data[:12] + bytes([data[12] ^ 0x10]) + data[13:])
    assert [line.seq for line in store.lines(0)] == [0, 1, 2, 3, 4, 9, 10, 11]
    assert [(one.first_seq, one.next_seq) for one in store.damage] == [(5, 9)]


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
async def test_a_damaged_segment_holds_up_no_merge(store: Store, harm: str) -> None:
    for seq in range(20):
        await store.seal(batch(seq, seq + 1))
    path = store.file_of(2)
    data = path.read_bytes()
    if harm == "remove":
        path.unlink()
    elif harm == "cut":
        path.write_bytes(data[:20])
    else:
        (row,) = store.rows(path.stem)
        end = row.offset + row.size_bytes
        path.write_bytes(data[: end - 1] + b"?" + data[end:])
    unfit: set[str] = set()
    merged = await store.merge(unfit)
    assert merged is not None
    assert unfit == {path.stem}
    assert path.stem not in merged.replaces
    await store.merge(unfit)
    assert len(store.shelf.index.sizes(merged.partition, store.shelf.logger)) == 6
    found = [line.seq for line in store.lines(0)]
    assert found == [seq for seq in range(20) if seq != 2]
    assert {(one.first_seq, one.next_seq) for one in store.damage} == {(2, 3)}


async def test_a_merge_copies_a_damaged_frame_as_it_is(store: Store) -> None:
    for seq in range(8):
        await store.seal(batch(seq, seq + 1))
    path = store.file_of(2)
    data = path.read_bytes()
    path.write_bytes(data[:10] + bytes([data[10] ^ 1]) + data[11:])
    unfit: set[str] = set()
    assert await store.merge(unfit) is not None
    assert not unfit
    assert [line.seq for line in store.lines(0)] == [0, 1, 3, 4, 5, 6, 7]
    assert [(one.first_seq, one.next_seq) for one in store.damage] == [(2, 3)]


# The index


def flipped(data: bytes, count: int) -> Iterator[bytes]:
    """Copies with one bit turned, at places that are in use."""
    chance = Random(SEED)
    used = [at for at, value in enumerate(data) if value]
    for at in chance.sample(used, min(count, len(used))):
        yield data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def truth(store: Store) -> list[object]:
    index = store.shelf.index
    return [
        *((rank, index.position((JOB, 1, rank, 0)), index.parts((JOB, 1, rank, 0))) for rank in range(4)),  # type: ignore[arg-type]
        tuple(index.attempts(JOB)),
        index.positions(JOB, 1, 0),
        tuple(sorted(index.sizes(store.catalogue._partition, store.shelf.logger))),
    ]


async def test_a_turned_bit_in_the_index_is_put_right_from_the_records(
    tmp_path: Path, bus: MemoryBus, store: Store
) -> None:
    for seq in range(5):
        await store.seal(*(batch(seq, seq + 1, rank=rank, end=seq == 4) for rank in range(4)))
    expected = truth(store)
    store.close()
    index = store.path / "index.sqlite"
    assert not index.with_name("index.sqlite-wal").exists()
    for data in flipped(index.read_bytes(), 250):
        index.write_bytes(data)
        again = Store(store.path, bus)
        try:
            assert await served(again) == expected
        finally:
            again.close()
    store.shelf = Shelf(store.path)


async def served(store: Store) -> list[object]:
    """What is served when damage that is met makes the index anew, as in the service."""
    try:
        await store.catalogue.load()
        return truth(store)
    except DamagedIndexError:
        store.shelf.renew_index()
        await store.catalogue.load()
        return truth(store)


@pytest.mark.parametrize("size_bytes", [0, 1, 100, 4096, 5000, 12288])
async def test_a_cut_index_is_made_anew(tmp_path: Path, bus: MemoryBus, size_bytes: int) -> None:
    await write(bus, [batch(0, 50, end=True)])
    async with running(bus, tmp_path) as context:
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") == 1)
    index = tmp_path / "index.sqlite"
    index.write_bytes(index.read_bytes()[:size_bytes])
    async with running(bus, tmp_path):
        assert seqs((await ask_page(bus, LogQuery(JOB))).batches) == list(range(50))


async def test_an_index_that_is_damaged_while_it_is_used_is_made_anew(tmp_path: Path, bus: MemoryBus) -> None:
    async with running(bus, tmp_path) as context:
        await write(bus, [batch(0, 50)])
        await until(lambda: metric(context, "gpuyard_logger_sealed_segments_total") == 1)
        for path in (tmp_path / "index.sqlite", tmp_path / "index.sqlite-wal"):
            if path.exists():
                path.write_bytes(b"\xff" * path.stat().st_size)
        seq = await write(bus, [batch(50, 99, end=True)])
        page = await ask_page(bus, LogQuery(JOB))
        while page.through_seq < seq:
            page = await ask_page(bus, LogQuery(JOB))
        assert seqs(page.batches) == list(range(99))
        await until(lambda: context.health.is_ready)
    assert (
        sum(row.next_seq - row.first_seq for one in (await records(bus)).values() for row in one.rows) == 99
    )


async def test_lost_files_are_told_and_the_rest_is_read(tmp_path: Path, bus: MemoryBus) -> None:
    async with running(bus, tmp_path) as context:
        for n in range(3):
            await write(bus, [batch(10 * n, 10 * n + 10)])
            await until(lambda n=n: metric(context, "gpuyard_logger_sealed_segments_total") == n + 1)  # type: ignore[misc]
    shutil.rmtree(tmp_path / "segments")
    async with running(bus, tmp_path):
        page = await ask_page(bus, LogQuery(JOB))
        assert page.damaged == ((0, 0, 10), (0, 10, 20), (0, 20, 30))
