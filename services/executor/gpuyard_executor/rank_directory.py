"""A rank's directory: what the executor writes and reads beside the supervisor that works in it."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec

from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.rank import RankEnd, RankPlan
from gpuyard_executor.launch_failure import describe_launch_failure

SEGMENT_BYTES = 16 * 1024 * 1024


class Limits(msgspec.Struct, frozen=True):
    """How much output may lie in a rank's directory."""

    segment_bytes: int = SEGMENT_BYTES
    unshipped_bytes: int = 1 << 30


class PlanFile(msgspec.Struct, frozen=True):
    """What the supervisor reads at its start."""

    command: tuple[str, ...]
    cwd: str
    grace_s: float
    segment_bytes: int
    limit_bytes: int
    boot: str


class ExitFile(msgspec.Struct, frozen=True):
    """What is left of a rank. `lost`: written by the executor, because the supervisor could not."""

    code: int | None = None
    started_at_s: float | None = None
    ended_at_s: float | None = None
    stopped: bool = False
    failed: tuple[str, int] | None = None
    lost: ExitCause | None = None


class RankDirectory:
    """Files only; knows nothing of connections or states."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, plan: RankPlan, limits: Limits) -> None:
        """Make the directory with its plan, whole or not at all.

        Raises:
            FileExistsError: the rank was prepared before.

        """
        self.path.mkdir(mode=0o700)
        file = PlanFile(
            plan.command, plan.cwd, plan.grace_s, limits.segment_bytes, limits.unshipped_bytes, boot_id()
        )
        # Python's own JSON: an environment or argument that is not UTF-8 keeps its escaped bytes.
        write_whole(self.path / "plan", json.dumps(msgspec.to_builtins(file)).encode())

    def plan(self) -> PlanFile | None:
        """The plan; None if the directory was never finished."""
        try:
            return msgspec.convert(json.loads((self.path / "plan").read_bytes()), PlanFile)
        except (OSError, ValueError):
            return None

    def end(self) -> tuple[ExitFile, RankEnd] | None:
        """How the rank ended; None if it has not, or nobody could write it down."""
        try:
            file = msgspec.json.decode((self.path / "exit").read_bytes(), type=ExitFile)
        except (OSError, msgspec.MsgspecError):
            return None
        return file, self._rank_end(file)

    def _rank_end(self, file: ExitFile) -> RankEnd:
        if file.failed:
            plan = self.plan()
            code, message = (
                describe_launch_failure(*file.failed, plan.command[0], plan.cwd) if plan else (None, "")
            )
            return RankEnd(code, file.ended_at_s, file.stopped, ExitCause.LAUNCH, message)
        if file.lost:
            return RankEnd(None, file.ended_at_s, file.stopped, file.lost, _LOST[file.lost])
        code = 128 - file.code if file.code is not None and file.code < 0 else file.code
        return RankEnd(code, file.ended_at_s, file.stopped)

    def write_lost(self, cause: ExitCause, at_s: float) -> None:
        """Write the exit record in place of a supervisor that is gone."""
        record = ExitFile(None, self.started_at_s(), at_s, lost=cause)
        write_whole(self.path / "exit", msgspec.json.encode(record))

    def started(self) -> int | None:
        """Process id of the rank's first process, 0 if it did not get to write it; None if it never ran."""
        try:
            return int((self.path / "started").read_text() or 0)
        except FileNotFoundError:
            return None

    def started_at_s(self) -> float | None:
        try:
            return (self.path / "started").stat().st_mtime
        except FileNotFoundError:
            return None

    def is_supervised(self) -> bool:
        """Whether a supervisor lives, or is on its way."""
        with self.opened() as directory:
            lock = self.lock(directory)
            if lock is not None:
                os.close(lock)
            return lock is None

    @contextmanager
    def opened(self) -> Iterator[int]:
        directory = os.open(self.path, os.O_DIRECTORY | os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield directory
        finally:
            os.close(directory)

    def lock(self, directory: int) -> int | None:
        """Take the proof of life; None if a supervisor has it."""
        fd = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600, dir_fd=directory)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd

    def listen(self, directory: int) -> socket.socket:
        """The supervisor's socket, ready before the supervisor is."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(_control(directory))
        listener.listen(8)
        return listener

    def connect(self) -> socket.socket:
        """Connect to the supervisor.

        Raises:
            OSError: there is none.

        """
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            with self.opened() as directory:
                connection.connect(_control(directory))
        except OSError:
            connection.close()
            raise
        return connection


_LOST = {
    ExitCause.NODE_LOST: "the machine was restarted while it ran",
    ExitCause.UNKNOWN: "its supervisor was killed, and its exit code with it",
}


def _control(directory: int) -> str:
    """A name for the socket that is short however long the directory's is: the kernel allows 108 bytes."""
    return f"/proc/self/fd/{directory}/control"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader finds all of it or nothing."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(data)
    new.rename(path)


@cache
def boot_id() -> str:
    """Changes when the machine restarts; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
