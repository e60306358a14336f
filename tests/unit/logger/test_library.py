"""Reading segments from a disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyard.contracts.log import OUT, LogChunk, LogQuery
from gpuyard_logger.answers import read_page
from gpuyard_logger.core.frame import Frame, Packed, pack
from gpuyard_logger.core.gather import View
from gpuyard_logger.core.layout import Sealed, Stream
from gpuyard_logger.folder import Folder
from gpuyard_logger.index import Index
from gpuyard_logger.library import Damage, Library
from gpuyard_logger.sealing import write_segment
from tests.unit.logger.batches import JOB, lines

STREAM = Stream(JOB, 1, 0)
NOTHING_OPEN = View({}, {}, 7)


class Disk:
    """Segments in a folder; counts what is read of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = Folder(folder / "segments")
        self.index = Index(folder / "index.sqlite")
        self.index.prepare()
        self.damage: list[Damage] = []
        self.read_bytes = 0
        self.library = Library(self.index, self, self._open, self.damage.append)
        self.open: list[Frame] = []

    def read(self, segment: str, _holder: str, offset: int, size_bytes: int) -> bytes:
        data = self.folder.read(segment, offset, size_bytes)
        self.read_bytes += len(data)
        return data

    def seal(self, *frames: Packed, ended: bool = False, replaces: tuple[str, ...] = ()) -> str:
        part = Sealed(STREAM, frames, frames[-1].entry.next_seq, ended, 0.0)
        segment = write_segment(self.folder, [part], partition=0, holder="me", at_s=0.0, replaces=replaces)
        self.index.add(segment)
        return segment.id

    def break_byte(self, segment: str, at: int) -> None:
        data = bytearray(self.folder.path(segment).read_bytes())
        data[at] ^= 0xFF
        self.folder.path(segment).write_bytes(data)

    def seqs(self, **query: object) -> list[int]:
        page = read_page(self.library, LogQuery(JOB, **query), NOTHING_OPEN)  # type: ignore[arg-type]
        return [line.seq for line in lines(page.batches)]

    def _open(self, _stream: Stream, from_seq: int) -> Iterator[Frame]:
        return (frame for frame in self.open if frame.next_seq > from_seq)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    disk.index.close()


def packed(first_seq: int, next_seq: int, at_s: float = 0.0) -> Packed:
    text = b"".join(b"line %d\n" % seq for seq in range(first_seq, next_seq))
    return pack(first_seq, [LogChunk(OUT, at_s, text)])


def test_backwards_is_forwards_turned_round(disk: Disk) -> None:
    disk.seal(packed(0, 3), packed(3, 5))
    disk.seal(packed(5, 9), packed(9, 10), packed(10, 14))
    forward = [frame.text for frame in disk.library.frames(STREAM)]
    assert [frame.text for frame in disk.library.frames_back(STREAM, 14)] == forward[::-1]
    assert [frame.first_seq for frame in disk.library.frames_back(STREAM, 10)] == [9, 5, 3, 0]
    assert [frame.first_seq for frame in disk.library.frames_back(STREAM, 6)] == [5, 3, 0]


def test_what_is_open_follows_what_is_sealed(disk: Disk) -> None:
    disk.seal(packed(0, 4))
    disk.open = [Frame(2, 4, [], b""), Frame(4, 8, [], b"")]
    assert [frame.first_seq for frame in disk.library.frames(STREAM)] == [0, 4]
    assert [frame.first_seq for frame in disk.library.frames_back(STREAM, 8)] == [4, 2, 0]


def test_frames_of_other_times_are_not_fetched(disk: Disk) -> None:
    frames = [packed(seq, seq + 5000, at_s=float(seq)) for seq in range(0, 100_000, 5000)]
    disk.seal(*frames)
    disk.seal(packed(100_000, 105_000, at_s=9e9))
    assert disk.seqs(since_s=30_000.0, until_s=30_001.0) == list(range(30_000, 35_000))
    assert disk.read_bytes < 2 * len(frames[6].data) + 8192


def test_a_tail_fetches_only_the_end(disk: Disk) -> None:
    frames = [packed(seq, seq + 5000) for seq in range(0, 100_000, 5000)]
    disk.seal(*frames)
    assert disk.seqs(tail=10) == list(range(99_990, 100_000))
    assert disk.read_bytes < len(frames[-1].data) + 8192


def test_a_segment_that_went_while_it_was_read_is_found_in_another(disk: Disk) -> None:
    old = [disk.seal(packed(0, 3)), disk.seal(packed(3, 6))]
    forward, backward = disk.library.frames(STREAM), disk.library.frames_back(STREAM, 6)
    assert (next(forward).first_seq, next(backward).first_seq) == (0, 3)
    disk.seal(packed(0, 3), packed(3, 6), replaces=tuple(old))
    for segment in old:
        disk.folder.remove(segment)
    assert [frame.first_seq for frame in forward] == [3]
    assert [frame.first_seq for frame in backward] == [0]


def test_a_segment_that_is_gone_for_good_is_told_and_left_out(disk: Disk) -> None:
    gone = disk.seal(packed(0, 3))
    disk.seal(packed(3, 5))
    disk.folder.remove(gone)
    assert disk.seqs() == [3, 4]
    assert [one[1:3] for one in disk.damage] == [(0, 3)]
    assert disk.seqs(tail=9) == [3, 4]


def test_a_damaged_frame_is_told_and_left_out(disk: Disk) -> None:
    segment = disk.seal(packed(0, 3), packed(3, 6), packed(6, 9))
    disk.break_byte(segment, 8 + packed(0, 3).entry.size_bytes + 5)
    assert disk.seqs() == [0, 1, 2, 6, 7, 8]
    assert [one[1:3] for one in disk.damage] == [(3, 6)]
    disk.damage.clear()
    assert disk.seqs(grep="line [268]", tail=2) == [6, 8]
    assert disk.damage == []
    assert disk.seqs(grep="line 2", context=2) == [0, 1, 2]
    assert {one[1:3] for one in disk.damage} == {(3, 6)}


def test_a_damaged_footer_hides_its_part_alone(disk: Disk) -> None:
    disk.seal(packed(0, 3))
    segment = disk.seal(packed(3, 6))
    disk.break_byte(segment, 8 + packed(3, 6).entry.size_bytes + 3)
    disk.seal(packed(6, 8))
    assert disk.seqs() == [0, 1, 2, 6, 7]
    assert [one[1:3] for one in disk.damage] == [(3, 6)]


def test_every_flipped_bit_is_found_or_harmless(disk: Disk) -> None:
    segment = disk.seal(packed(0, 20), packed(20, 40))
    whole = disk.folder.path(segment).read_bytes()
    for at in range(8, disk.index.parts(STREAM)[0].row.size_bytes + 8):
        disk.damage.clear()
        disk.break_byte(segment, at)
        page = read_page(disk.library, LogQuery(JOB), NOTHING_OPEN)
        assert disk.damage, at
        assert all(line.text == b"line %d" % line.seq for line in lines(page.batches)), at
        disk.folder.path(segment).write_bytes(whole)
