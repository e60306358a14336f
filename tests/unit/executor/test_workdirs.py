import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuyard.bus.memory import MemoryBus
from gpuyard.client.workdir import pack
from gpuyard.contracts.subjects import UPLOADS_BUCKET
from gpuyard.runtime.clock import SystemClock
from gpuyard_executor.core.rank import GangKey
from gpuyard_executor.unpack import unpack
from gpuyard_executor.workdirs import WorkdirFailed, Workdirs

GANG = GangKey("j1", 1)
Member = Callable[[tarfile.TarInfo], None]


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus()


@pytest.fixture
def workdirs(bus: MemoryBus, tmp_path: Path) -> Workdirs:
    return Workdirs(tmp_path / "home", bus, SystemClock(), keep=2)


def archive(*members: tuple[str, Member | bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, what in members:
            member = tarfile.TarInfo(name)
            data = what if isinstance(what, bytes) else b""
            member.size = len(data)
            if not isinstance(what, bytes):
                what(member)
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def link(to: str, kind: bytes = tarfile.SYMTYPE) -> Member:
    def change(member: tarfile.TarInfo) -> None:
        member.type, member.linkname = kind, to

    return change


def special(kind: bytes) -> Member:
    def change(member: tarfile.TarInfo) -> None:
        member.type = kind

    return change


async def put(bus: MemoryBus, data: bytes) -> str:
    name = f"sha256-{hashlib.sha256(data).hexdigest()}"
    await bus.put_object(UPLOADS_BUCKET, name, data)
    return name


async def test_what_the_client_packs_is_unpacked(bus: MemoryBus, workdirs: Workdirs, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "data").mkdir(parents=True)
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    (source / "data" / "words").write_text("hello")
    (source / "latest").symlink_to("data/words")
    packed = pack(source)
    await bus.put_object(UPLOADS_BUCKET, packed.name, packed.data)
    await workdirs.make(GANG, packed.name)
    made = workdirs.root / "j1.1"
    assert (made / "latest").read_text() == "hello"
    assert os.access(made / "run.sh", os.X_OK)


async def test_attempts_do_not_share_a_directory(bus: MemoryBus, workdirs: Workdirs) -> None:
    upload = await put(bus, archive(("a", b"original")))
    await workdirs.make(GANG, upload)
    (workdirs.root / "j1.1" / "a").write_text("changed")
    await bus.put_object(UPLOADS_BUCKET, upload, b"never fetched again")
    await workdirs.make(GangKey("j1", 2), upload)
    assert (workdirs.root / "j1.2" / "a").read_text() == "original"


async def test_making_it_again_changes_nothing(bus: MemoryBus, workdirs: Workdirs) -> None:
    upload = await put(bus, archive(("a", b"original")))
    await workdirs.make(GANG, upload)
    (workdirs.root / "j1.1" / "a").write_text("changed")
    await workdirs.make(GANG, upload)
    assert (workdirs.root / "j1.1" / "a").read_text() == "changed"


async def test_without_an_upload_it_is_empty_and_goes_with_its_attempt(workdirs: Workdirs) -> None:
    await workdirs.make(GANG, "")
    assert list((workdirs.root / "j1.1").iterdir()) == []
    await workdirs.release(GANG)
    assert not (workdirs.root / "j1.1").exists()


async def test_a_damaged_upload_is_refused(bus: MemoryBus, workdirs: Workdirs) -> None:
    await bus.put_object(UPLOADS_BUCKET, "sha256-" + "0" * 64, archive(("a", b"x")))
    with pytest.raises(WorkdirFailed, match="damaged"):
        await workdirs.make(GANG, "sha256-" + "0" * 64)
    for data in (b"no archive", archive(("a", b"x" * 9999))[:-40]):
        with pytest.raises(WorkdirFailed, match="can't be unpacked"):
            await workdirs.make(GANG, await put(bus, data))
    assert list(workdirs.root.iterdir()) == [], "nothing half made stays"


async def test_an_upload_that_is_not_there(workdirs: Workdirs) -> None:
    with pytest.raises(WorkdirFailed, match="is not in the store"):
        await workdirs.make(GANG, "sha256-" + "1" * 64)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([("../out", b"x")], "leads out"),
        ([("a/../../out", b"x")], "leads out"),
        ([("/etc/out", b"x")], "absolute"),
        ([("l", link("/etc"))], "absolute"),
        ([("l", link(".."))], "leads out"),
        ([("d/l", link("../../x"))], "leads out"),
        ([("l", link("../x", tarfile.LNKTYPE))], "leads out"),
        ([("l", link("d")), ("l/f", b"x")], "through a link"),
        ([("l", link("d")), ("l", b"x")], "through a link"),
        ([("l", link("d")), ("h", link("l/f", tarfile.LNKTYPE))], "through a link"),
        ([("null", special(tarfile.CHRTYPE))], "device"),
        ([("pipe", special(tarfile.FIFOTYPE))], "pipe"),
    ],
)
def test_hostile_archives(tmp_path: Path, members: list[tuple[str, Member | bytes]], words: str) -> None:
    file = tmp_path / "archive"
    file.write_bytes(archive(*members))
    with pytest.raises(tarfile.TarError, match=words):
        unpack(file, tmp_path / "target")
    assert not (tmp_path / "out").exists()


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard_executor.unpack.MOST_BYTES", 1 << 20)
    file = tmp_path / "archive"
    file.write_bytes(archive(("zeros", bytes(2 << 20))))
    with pytest.raises(tarfile.TarError, match="more than"):
        unpack(file, tmp_path / "target")


async def test_the_newest_are_kept_and_those_in_use(bus: MemoryBus, workdirs: Workdirs) -> None:
    upload = await put(bus, archive(("a", b"x")))
    for attempt in range(1, 6):
        gang = GangKey("j1", attempt)
        await workdirs.make(gang, upload)
        os.utime(workdirs.root / str(gang), (attempt, attempt))
    for attempt in range(2, 6):
        await workdirs.release(GangKey("j1", attempt))
    assert sorted(path.name for path in workdirs.root.iterdir()) == ["j1.1", "j1.4", "j1.5"]
