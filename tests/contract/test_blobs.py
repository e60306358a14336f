"""Every place where segments lie keeps the same promises: the disk, another logger, object storage."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gpuyard.bus.memory import MemoryBus
from gpuyard_logger.blobs import LoggerBlobs, Objects, Place
from gpuyard_logger.config import ObjectsConfig
from gpuyard_logger.folder import Folder
from gpuyard_logger.object_store import ObjectStore
from gpuyard_logger.peers import MOST_BYTES, Lender
from gpuyard_logger.shelf import Shelf
from tests.s3server import S3Server
from tests.unit.logger.running import context_on

NAME, OTHER = "0a" * 16, "0b" * 16
DATA = bytes(range(256)) * 8192

Read = Callable[[str, int, int], bytes]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.kill()


def objects_at(where: str, request: pytest.FixtureRequest, folder: Path) -> ObjectStore:
    if where == "s3":
        server: S3Server = request.getfixturevalue("s3")
        return ObjectStore(ObjectsConfig(url=f"{server.url}/{folder.name}", options=server.options))
    return ObjectStore(ObjectsConfig(url="memory:///" if where == "memory" else f"file://{folder}/objects"))


@pytest.fixture(params=["memory", "file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return objects_at(request.param, request, tmp_path)


@pytest.fixture(params=["folder", "memory", "file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A place with one segment in it."""
    if request.param == "folder":
        folder = Folder(tmp_path / "segments")
        folder.write(NAME, [DATA])
        return folder
    objects = objects_at(request.param, request, tmp_path).of(3)
    objects.put(NAME, file_of(tmp_path))
    return objects


def file_of(folder: Path, data: bytes = DATA) -> Path:
    path = folder / "file"
    path.write_bytes(data)
    return path


@asynccontextmanager
async def blobs(where: str, request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[tuple[Read, str]]:
    """A logger's way to a segment that lies there, and its holder."""
    bus = MemoryBus()
    mine, other = Shelf(folder / "mine"), Shelf(folder / "other")
    lender = asyncio.create_task(Lender(context_on(bus), other).run())
    objects = None
    holder = {"folder": mine.logger, "peer": other.logger}.get(where, "")
    if where in ("folder", "peer"):
        (mine if where == "folder" else other).folder.write(NAME, [DATA])
    else:
        objects = objects_at(where, request, folder).of(3)
        objects.put(NAME, file_of(folder))
    reader = LoggerBlobs(bus, mine, objects)
    try:
        yield (lambda segment, offset, size: reader.read(segment, holder, offset, size)), holder
    finally:
        lender.cancel()
        mine.close()
        other.close()


@pytest.mark.parametrize("where", ["folder", "peer", "memory", "file", "s3"])
async def test_ranges_are_read_wherever_they_lie(
    where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with blobs(where, request, tmp_path) as (read, _):
        for offset, size in ((0, 10), (1000, MOST_BYTES + 5), (0, len(DATA)), (len(DATA) - 3, 100)):
            assert await asyncio.to_thread(read, NAME, offset, size) == DATA[offset : offset + size]
        with pytest.raises(FileNotFoundError):
            await asyncio.to_thread(read, OTHER, 0, 10)


async def test_a_silent_logger_is_no_missing_segment(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    reader = LoggerBlobs(MemoryBus(), shelf, None)
    for holder, why in (("logger-away", "logger-away"), ("", "object storage")):
        with pytest.raises(OSError, match=why) as caught:
            await asyncio.to_thread(reader.read, NAME, holder, 0, 10)
        assert not isinstance(caught.value, FileNotFoundError)
    shelf.close()


def test_a_place_tells_what_is_there(place: Place) -> None:
    assert place.names() == {NAME}
    assert place.size_bytes(NAME) == len(DATA)
    assert place.read(NAME, 5, 3) == DATA[5:8]


def test_what_is_removed_is_gone(place: Place) -> None:
    place.remove(NAME)
    place.remove(NAME)
    assert place.names() == frozenset()
    with pytest.raises(FileNotFoundError):
        place.read(NAME, 0, 1)
    with pytest.raises(FileNotFoundError):
        place.size_bytes(NAME)


def test_partitions_do_not_see_each_other(store: ObjectStore, tmp_path: Path) -> None:
    three: Objects = store.of(3)
    three.put(NAME, file_of(tmp_path))
    assert store.of(31).names() == store.of(0).names() == frozenset()
    store.of(31).remove(NAME)
    assert three.names() == {NAME}


def test_large_files_go_in_parts_and_putting_again_changes_nothing(
    store: ObjectStore, tmp_path: Path
) -> None:
    data = DATA * 6 + b"end"
    for _ in range(2):
        store.of(0).put(NAME, file_of(tmp_path, data))
    assert store.of(0).size_bytes(NAME) == len(data)
    assert store.of(0).read(NAME, len(data) - 3, 10) == b"end"


def test_a_file_that_is_not_there_is_not_put(store: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="file"):
        store.of(0).put(NAME, tmp_path / "no-such-file")
    assert store.of(0).names() == frozenset()
