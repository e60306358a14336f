"""Working directories: fetched once per upload, unpacked once per attempt, kept for a while after it."""

import asyncio
import contextlib
import hashlib
import os
import random
import shutil
import tarfile
import zlib
from pathlib import Path

from gpuyard.bus.port import Objects
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.subjects import UPLOADS_BUCKET
from gpuyard.runtime.clock import Clock
from gpuyard.runtime.retry import backoff_s
from gpuyard_executor.core.rank import GangKey
from gpuyard_executor.unpack import unpack

_TRIES = 8


class WorkdirFailed(Exception):
    """The working directory can't be made; the message says why."""


class Workdirs:
    """`owner`: user and group that the directories shall belong to; None: those of this process."""

    def __init__(
        self, home: Path, bus: Objects, clock: Clock, keep: int, owner: tuple[int, int] | None = None
    ) -> None:
        self.root = home / "work"
        self._uploads = home / "uploads"
        self._bus = bus
        self._clock = clock
        self._keep = keep
        self._owner = owner
        for directory in (self.root, self._uploads):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fetching: dict[str, asyncio.Lock] = {}
        self._held: set[str] = set()

    def hold(self, gang: GangKey) -> None:
        """The directory is in use: it stays until `release`."""
        self._held.add(str(gang))

    async def make(self, gang: GangKey, upload: str) -> None:
        """Make the attempt's directory, unless it is there already.

        Raises:
            WorkdirFailed: no such upload, a damaged or hostile one, or no room.

        """
        self.hold(gang)
        path = self.root / str(gang)
        try:
            if not upload:
                path.mkdir(exist_ok=True)
                _give(path, self._owner)
            elif not path.exists():
                archive = await self._fetch(upload)
                await asyncio.to_thread(_unpack_whole, archive, path, self._owner)
        except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
            raise WorkdirFailed(f"the working directory can't be unpacked: {error}") from error

    async def release(self, gang: GangKey) -> None:
        """The attempt is over: keep its directory if there is something in it, and drop the oldest."""
        self._held.discard(str(gang))
        with contextlib.suppress(OSError):  # not empty, or gone
            (self.root / str(gang)).rmdir()
            return
        await asyncio.to_thread(self._drop_oldest)

    async def _fetch(self, upload: str) -> Path:
        archive = self._uploads / upload
        async with self._fetching.setdefault(upload, asyncio.Lock()):
            if not archive.exists():
                data = await self._download(upload)
                found = await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())
                if f"sha256-{found}" != upload:
                    raise WorkdirFailed(f"the upload {upload} is damaged: its hash is {found}")
                await asyncio.to_thread(_write_whole, archive, data)
        self._fetching.pop(upload, None)
        archive.touch()
        return archive

    async def _download(self, upload: str) -> bytes:
        for tries in range(1, _TRIES + 1):
            try:
                data = await self._bus.get_object(UPLOADS_BUCKET, upload)
            except Unavailable:
                await self._clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter
                continue
            if data is None:
                raise WorkdirFailed(f"the upload {upload} is not in the store; submit the job again")
            return data
        raise WorkdirFailed(f"the store did not give out the upload {upload}")

    def _drop_oldest(self) -> None:
        for path in _newest_first(self.root)[self._keep :]:
            if path.name not in self._held:
                shutil.rmtree(path, ignore_errors=True)
        for path in _newest_first(self._uploads)[self._keep :]:
            path.unlink(missing_ok=True)


def _newest_first(directory: Path) -> list[Path]:
    return sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)


def _write_whole(path: Path, data: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(data)
    new.rename(path)


def _unpack_whole(archive: Path, path: Path, owner: tuple[int, int] | None) -> None:
    new = path.with_name(f"new-{path.name}")
    shutil.rmtree(new, ignore_errors=True)
    try:
        unpack(archive, new)
        _give(new, owner)
        new.rename(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _give(path: Path, owner: tuple[int, int] | None) -> None:
    """Let all of it belong to somebody. Links are not followed."""
    if owner:
        for entry in (path, *path.rglob("*")):
            os.chown(entry, *owner, follow_symlinks=False)
