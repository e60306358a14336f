"""The writer in the supervisor and the reader in the executor agree, whatever the disk does."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuyard_executor.engine import OutputChunk
from gpuyard_executor.spool_reader import SpoolReader
from gpuyard_executor.supervisor.spool import FRAME, Spool, segment_name, segment_starts


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def drain(reader: SpoolReader) -> list[tuple[int, bytes]]:
    found = []
    while chunks := reader.read():
        found += [(chunk.stream, chunk.data) for chunk in chunks]
    return found


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 1), st.binary(min_size=1, max_size=300)), max_size=30),
    st.integers(1, 800),
    st.lists(st.integers(0, 40), max_size=60),
)
def test_every_frame_arrives_through_a_disk_that_is_often_full(
    printed: list[tuple[int, bytes]], segment_bytes: int, room: list[int]
) -> None:
    """`room`: how many bytes each write finds room for; none is a full disk."""
    for file in Path().iterdir():
        file.unlink()
    spool, reader, found = Spool(segment_bytes, 1 << 30), SpoolReader(Path(), 0), []
    real_write = os.write
    with pytest.MonkeyPatch.context() as patch:

        def write(fd: int, data: bytes) -> int:
            fits = room.pop() if room else len(data)
            if fits == 0:
                raise OSError(28, "No space left on device")
            return real_write(fd, data[:fits])

        patch.setattr(os, "write", write)
        for stream, data in printed:
            spool.append(stream, data)
            while not spool.flush():
                found += drain(reader)
    found += drain(reader)
    reader.close()
    assert found == printed
    assert spool.offset == sum(FRAME.size + len(data) for _, data in printed)


def test_reading_begins_anywhere() -> None:
    spool = Spool(100, 1 << 30)
    for number in range(20):
        spool.append(0, b"%d\n" % number * 10)
    chunks: list[OutputChunk] = []
    reader = SpoolReader(Path(), 0)
    while page := reader.read():
        chunks += page
    for number, chunk in enumerate(chunks):
        later = SpoolReader(Path(), chunk.offset)
        assert drain(later) == [(each.stream, each.data) for each in chunks[number:]]
        later.close()
    reader.close()


def test_nothing_is_there_yet() -> None:
    reader = SpoolReader(Path(), 0)
    assert reader.read() == ()
    Spool(100, 100).append(1, b"x")
    assert drain(reader) == [(1, b"x")]
    reader.close()


def test_too_much_unshipped_output_leaves_no_room_until_some_is_deleted() -> None:
    spool = Spool(100, 250)
    while spool.has_room():
        spool.append(0, b"x" * 50)
    assert 250 <= spool.offset <= 350
    Path(segment_name(segment_starts(".")[0])).unlink()
    assert spool.has_room()
