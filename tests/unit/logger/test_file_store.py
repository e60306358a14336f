import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuyard.contracts.errors import Conflict
from gpuyard_logger.core.sequence import Position
from gpuyard_logger.file_store import FileStore
from gpuyard_logger.store import RankId
from tests.unit.logger.batches import JOB, batch, is_true_to_number, lines, raw, seqs

RANK_0 = RankId(JOB, 1, 0)


@contextmanager
def opened(folder: Path, **settings: int) -> Iterator[FileStore]:
    store = FileStore(folder, **settings)  # type: ignore[arg-type]
    try:
        yield store
    finally:
        store.close()


def file_in(folder: Path) -> Path:
    return folder / JOB / "1" / "0.log"


def test_what_was_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append([batch(0, 5), batch(0, 7, rank=3)])
    with opened(tmp_path) as store:
        assert store.append([batch(3, 9, end=True)]).lines == 4
        assert store.positions(JOB, 1) == {0: Position(9, ended=True), 3: Position(7)}
        assert seqs(store.read(RANK_0, 0)) == list(range(9))


@pytest.mark.parametrize("damage", ["cut", "flip", "zero"])
def test_the_stream_heals_damage_at_any_byte_of_the_last_round(tmp_path: Path, damage: str) -> None:
    """What was acknowledged before is there; the round in doubt comes again, each line is there once."""
    with opened(tmp_path) as store:
        store.append([batch(0, 3)])
        acknowledged_bytes = file_in(tmp_path).stat().st_size
        store.append([batch(3, 4), batch(4, 6)])
    whole = file_in(tmp_path).read_bytes()
    for at in range(acknowledged_bytes, len(whole)):
        changed = {
            "cut": b"",
            "flip": bytes([whole[at] ^ 0xFF]) + whole[at + 1 :],
            "zero": bytes(len(whole) - at),
        }
        file_in(tmp_path).write_bytes(whole[:at] + changed[damage])
        with opened(tmp_path) as store:
            assert seqs(store.read(RANK_0, 0))[:3] == [0, 1, 2]
            store.append([batch(3, 4), batch(4, 6)])
            found = lines(store.read(RANK_0, 0))
        assert [line.seq for line in found] == list(range(6))
        assert is_true_to_number(found)


def test_damaged_acknowledged_lines_are_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    told: list[tuple[Path, int]] = []
    with opened(tmp_path) as store:
        for first in range(0, 9, 3):
            store.append([batch(first, first + 3)])
    data = bytearray(file_in(tmp_path).read_bytes())
    data[len(data) // 3 + 8] ^= 0xFF
    file_in(tmp_path).write_bytes(data)
    store = FileStore(tmp_path, on_damage=lambda path, holes: told.append((path, holes)))
    try:
        assert seqs(store.read(RANK_0, 0)) == [0, 1, 2, 6, 7, 8]
        assert seqs(store.read(RANK_0, 7)) == [7, 8]
    finally:
        store.close()
    assert told == [(file_in(tmp_path), 1)]


def test_a_folder_belongs_to_one_store(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(Conflict, match="another logger"):
        FileStore(tmp_path)
    with opened(tmp_path):
        pass


def test_few_descriptors_are_held(tmp_path: Path) -> None:
    before = open_descriptors()
    with opened(tmp_path, open_files=4) as store:
        store.append([batch(0, 3, rank=rank) for rank in range(40)])
        assert open_descriptors() <= before + 5
        assert store.positions(JOB, 1) == {rank: Position(3) for rank in range(40)}
    assert open_descriptors() == before


def test_foreign_files_in_the_folder_do_no_harm(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append([batch(0, 3)])
        for name in ("lost+found", "notes.txt", "x.log", "-1.log"):
            (tmp_path / JOB / "1" / name).touch()
            (tmp_path / JOB / name).touch()
        assert list(store.attempts(JOB)) == [1]
        assert store.positions(JOB, 1) == {0: Position(3)}


def test_a_tail_reads_little_of_a_long_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = b"x" * 999 + b"\n"
    with opened(tmp_path) as store:
        store.append([raw(line * 50, first_seq=seq, next_seq=seq + 50) for seq in range(0, 5000, 50)])
        read_bytes = 0
        real_pread = os.pread

        def counted(descriptor: int, count: int, offset: int) -> bytes:
            nonlocal read_bytes
            data = real_pread(descriptor, count, offset)
            read_bytes += len(data)
            return data

        monkeypatch.setattr(os, "pread", counted)
        assert seqs(store.read(RANK_0, 4990)) == list(range(4990, 5000))
        assert read_bytes < 200_000


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class FailingDisk:
    """Lets a system call of the store fail a number of times, after it did part of its work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, call: str, times: int) -> None:
        self.left = times
        self._call = call
        self._real = getattr(os, call)
        monkeypatch.setattr(os, call, self.fail_or_do)

    def fail_or_do(self, descriptor: int, *args: object) -> object:
        if not self.left:
            return self._real(descriptor, *args)
        self.left -= 1
        if self._call == "pwrite":
            data, offset = args
            assert isinstance(data, memoryview)
            self._real(descriptor, data[: len(data) // 2], offset)
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_full_disk_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, times: int
) -> None:
    with opened(tmp_path) as store:
        store.append([batch(0, 3), batch(0, 3, rank=1)])
        disk = FailingDisk(monkeypatch, call, times)
        failures = 0
        while disk.left:
            with pytest.raises(OSError, match="No space"):
                store.append([batch(3, 50), batch(3, 40, rank=1)])
            failures += 1
        assert seqs(store.read(RANK_0, 0)) == [0, 1, 2]
        assert failures == times
        store.append([batch(3, 10), batch(3, 40, rank=1)])
        assert seqs(store.read(RANK_0, 0)) == list(range(10))
    with opened(tmp_path) as store:
        assert store.positions(JOB, 1) == {0: Position(10), 1: Position(40)}
        assert seqs(store.read(RANK_0, 0)) == list(range(10))


def test_a_partial_write_is_carried_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: real_pwrite(fd, data[:7], offset))
    with opened(tmp_path) as store:
        store.append([batch(0, 30)])
        assert seqs(store.read(RANK_0, 0)) == list(range(30))
