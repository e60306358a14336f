"""A store on the local disk: one append-only file per rank, `JOB/ATTEMPT/RANK.log`.

A round costs one write and one wait for the disk per rank that it touches. Files are opened when they are
needed, so that a restart costs nothing however much is stored.
"""

import fcntl
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gpuyard.contracts.errors import Conflict
from gpuyard.contracts.log import LogBatch
from gpuyard_logger.core.sequence import Position
from gpuyard_logger.handles import Handles
from gpuyard_logger.log_file import LogFile
from gpuyard_logger.store import RankId, Stored


def _ignore(_path: Path, _holes: int) -> None:
    pass


class FileStore:
    """Files in a folder that belongs to one process at a time.

    Args:
        open_files: descriptors held at most.
        remembered_files: files whose index is kept in memory, a few hundred bytes and more each.
        on_damage: told of a file with damaged places, and how many, when it is opened.

    """

    def __init__(
        self,
        folder: Path,
        *,
        open_files: int = 256,
        remembered_files: int = 16384,
        on_damage: Callable[[Path, int], None] = _ignore,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._lock = _lock(folder / "lock")
        self._handles = Handles(open_files)
        self._files: OrderedDict[RankId, LogFile] = OrderedDict()
        self._remembered_files = remembered_files
        self._on_damage = on_damage

    def append(self, batches: Sequence[LogBatch]) -> Stored:
        by_rank: dict[RankId, list[LogBatch]] = {}
        for batch in batches:
            by_rank.setdefault(RankId.of(batch), []).append(batch)
        files = {rank_id: self._file(rank_id) for rank_id in by_rank}
        stored = sum((files[rank_id].stage(by_rank[rank_id]) for rank_id in by_rank), Stored())
        for file in files.values():
            file.commit()
        return stored

    def attempts(self, job: str) -> Sequence[int]:
        return sorted(_numbers(self._folder / job, ""))

    def positions(self, job: str, attempt: int) -> Mapping[int, Position]:
        ranks = _numbers(self._folder / job / str(attempt), ".log")
        return {rank: self._file(RankId(job, attempt, rank)).position for rank in ranks}

    def read(self, rank_id: RankId, from_seq: int) -> Iterator[LogBatch]:
        return self._file(rank_id).read(from_seq) if self._path(rank_id).exists() else iter(())

    def close(self) -> None:
        self._files.clear()
        self._handles.close()
        os.close(self._lock)

    def _path(self, rank_id: RankId) -> Path:
        return self._folder / rank_id.job / str(rank_id.attempt) / f"{rank_id.rank}.log"

    def _file(self, rank_id: RankId) -> LogFile:
        file = self._files.pop(rank_id, None) or self._open(self._path(rank_id))
        self._files[rank_id] = file
        if len(self._files) > self._remembered_files:
            self._files.popitem(last=False)
        return file

    def _open(self, path: Path) -> LogFile:
        if not path.exists():
            _make(path, self._folder)
        file = LogFile(path, self._handles)
        if file.holes:
            self._on_damage(path, file.holes)
        return file


def _numbers(folder: Path, suffix: str) -> Iterator[int]:
    """Numbers that name entries of a folder; none if it is not there."""
    entries = folder.iterdir() if folder.is_dir() else ()
    stems = (entry.name.removesuffix(suffix) for entry in entries if entry.name.endswith(suffix))
    return (int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def _make(path: Path, top: Path) -> None:
    """Create an empty file so that its name survives a power loss."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o640)
    folder = path
    while folder != top:
        folder = folder.parent
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int:
    """Keep every other process out until this one ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise Conflict(
            f"another logger uses {path.parent}", "Stop it, or give this one a `dir` of its own."
        ) from error
    return descriptor
