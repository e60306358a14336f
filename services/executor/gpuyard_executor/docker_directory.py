"""The directory of a rank that runs in a container: what the executor, its keeper and the container share."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from gpuyard_executor.core.container import SCRIPT
from gpuyard_executor.core.rank import RankPlan
from gpuyard_executor.rank_directory import Limits, RankDirectory, listening, opened, plan_line
from gpuyard_executor.rank_record import render_plan
from gpuyard_executor.supervisor.keeper import PIPES

Owner = tuple[int, int]


class DockerDirectory(RankDirectory):
    """`pipes/` is all of it that the container sees. The record is written when the container is made."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.pipes = path / "pipes"
        self._script = self.pipes / SCRIPT
        self._stop = path / "stopped"

    def make(self, owner: Owner) -> None:
        """Make the directory, with pipes that belong to the container's user."""
        self.path.mkdir(mode=0o700)
        self.pipes.mkdir(mode=0o755)
        for name in PIPES:
            os.mkfifo(self.path / name, 0o600)
            os.chown(self.path / name, *owner)

    def write_plan(self, plan: RankPlan, limits: Limits) -> None:
        """From here on an executor that comes later takes the rank over."""
        line = msgspec.structs.replace(plan_line(plan, limits), is_container=True)
        _write_whole(self.record_path, render_plan(line))

    @property
    def has_begun(self) -> bool:
        """Whether the start was asked for."""
        return self._script.exists()

    def write_script(self, script: bytes, owner: Owner) -> None:
        _write_whole(self._script, script, owner)

    def began_at_s(self) -> float | None:
        with contextlib.suppress(FileNotFoundError):
            return self._script.stat().st_mtime
        return None

    @property
    def stopped_at_s(self) -> float | None:
        """When the rank was first told to stop."""
        with contextlib.suppress(FileNotFoundError):
            return self._stop.stat().st_mtime
        return None

    def note_stop(self) -> None:
        if self.stopped_at_s is None and self.path.exists():
            self._stop.touch()
            os.utime(self._stop, times=(time.time(),) * 2)  # a new file's own time lags a tick behind

    @contextmanager
    def for_keeper(self) -> Iterator[tuple[int, int, int]]:
        """What a keeper needs: directory, locked record, listening socket.

        Raises:
            BlockingIOError: it has a keeper.

        """
        flags = os.O_RDWR | os.O_APPEND
        with opened(self.path, os.O_DIRECTORY) as directory, opened(self.record_path, flags) as record:
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self.path / "control").unlink(missing_ok=True)
            with listening(directory) as listener:
                yield directory, record, listener


def _write_whole(path: Path, data: bytes, owner: Owner | None = None) -> None:
    """Under its name there is all of it, or nothing."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(data)
    new.chmod(0o400 if owner else 0o600)
    if owner:
        os.chown(new, *owner)
    new.rename(path)
