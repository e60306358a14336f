"""A rank's directory: what the executor writes and reads beside the supervisor that works in it."""

import fcntl
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
from gpuyard_executor.rank_record import EndLine, PlanLine, RankRecord, parse_record, render_end, render_plan
from gpuyard_executor.supervisor.files import write_all

_LOST = {
    ExitCause.NODE_LOST: "the machine was restarted while it ran",
    ExitCause.UNKNOWN: "its supervisor was killed, and its exit code with it",
}


class Limits(msgspec.Struct, frozen=True):
    """How much output may lie in a rank's directory."""

    segment_bytes: int = 16 * 1024 * 1024
    unshipped_bytes: int = 1 << 30


class RankDirectory:
    """Files only; knows nothing of connections or states."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record_path = path / "rank"

    @contextmanager
    def create(self, plan: RankPlan, limits: Limits) -> Iterator[tuple[int, int, int]]:
        """Make the directory with all that a supervisor needs: directory, locked record, listening socket.

        Raises:
            FileExistsError: the rank was prepared before.

        """
        self.path.mkdir(mode=0o700)
        with opened(self.path, os.O_DIRECTORY) as directory:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
            with opened(self.record_path, flags) as record, listening(directory) as listener:
                fcntl.flock(record, fcntl.LOCK_EX)
                os.write(record, render_plan(plan_line(plan, limits)))
                yield directory, record, listener

    def record(self) -> RankRecord | None:
        """What is written of the rank; None if it was never prepared to the end."""
        try:
            return parse_record(self.record_path.read_bytes())
        except FileNotFoundError:
            return None

    def began_at_s(self) -> float | None:
        """When the record was last written to: for a rank that has begun and not ended, its beginning."""
        try:
            return self.record_path.stat().st_mtime
        except FileNotFoundError:
            return None

    def write_end(self, end: EndLine) -> bool:
        """Write the end in place of a supervisor that is gone; False if it must be tried again."""
        try:
            with opened(self.record_path, os.O_WRONLY | os.O_APPEND) as record:
                write_all(record, b"\n" + render_end(end))
        except FileNotFoundError:
            return True  # removed: nobody will ask
        except OSError:
            return False
        return True

    def is_supervised(self) -> bool:
        """Whether a supervisor lives, or is on its way."""
        try:
            with opened(self.record_path, os.O_RDWR) as record:
                fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            pass
        return False

    def connect(self) -> socket.socket:
        """Connect to the supervisor.

        Raises:
            OSError: there is none.

        """
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            with opened(self.path, os.O_DIRECTORY) as directory:
                connection.connect(_control(directory))
        except OSError:
            connection.close()
            raise
        return connection


def rank_end(plan: PlanLine, end: EndLine) -> RankEnd:
    """What the end of a record means."""
    if end.failed:
        code, message = describe_launch_failure(*end.failed, plan.command[0], plan.cwd)
        return RankEnd(code, end.ended_at_s, end.stopped, ExitCause.LAUNCH, message)
    if end.lost:
        return RankEnd(None, end.ended_at_s, end.stopped, end.lost, _LOST[end.lost])
    code = 128 - end.code if end.code is not None and end.code < 0 else end.code
    return RankEnd(code, end.ended_at_s, end.stopped, end.cause, end.message)


def plan_line(plan: RankPlan, limits: Limits) -> PlanLine:
    return PlanLine(
        plan.command, plan.cwd, plan.grace_s, limits.segment_bytes, limits.unshipped_bytes, boot_id()
    )


@contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """A descriptor for a while, not inherited by children."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def listening(directory: int) -> Iterator[int]:
    """The supervisor's socket, open before there is a supervisor: a connection waits for it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(_control(directory))
        listener.listen(8)
        yield listener.fileno()


def _control(directory: int) -> str:
    """A name for the socket that is short however long the directory's is: the kernel allows 108 bytes."""
    return f"/proc/self/fd/{directory}/control"


@cache
def boot_id() -> str:
    """Changes when the machine restarts; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
