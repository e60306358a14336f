"""Whose a process is, from /proc.

A rank and all that it starts carry the job's id in their environment, unless something in between cleared it;
then a parent still has it. What can't be read belongs to nobody. What a process is told at its start never
changes, so each is looked up once: its id together with its start time names it for ever.
"""

import os
import pwd
from collections.abc import Iterable, Mapping
from pathlib import Path

from gpuyard.contracts.ids import is_id
from gpuyard_monitor.core.foreign import Origin
from gpuyard_monitor.core.plain import plain

MARK = b"GPUYARD_JOB_ID="
_MOST_ANCESTORS = 32
_PARENT, _STARTED = 1, 19
"""Fields of /proc/PID/stat, from the state on."""


class Processes:
    """Looks processes up, and remembers those that still live."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._known: dict[int, tuple[str, Origin]] = {}

    def origins(self, pids: Iterable[int]) -> Mapping[int, Origin]:
        """What is known of each process; those that are gone are left out."""
        wanted = {pid: stat[_STARTED] for pid in set(pids) if (stat := self._stat(pid))}
        self._known = {
            pid: known
            if (known := self._known.get(pid)) and known[0] == started
            else (started, self._look_up(pid))
            for pid, started in wanted.items()
        }
        return {pid: origin for pid, (_, origin) in self._known.items()}

    def _look_up(self, pid: int) -> Origin:
        name = _read(self._proc / str(pid) / "comm").decode(errors="replace").strip()
        return Origin(plain(self._user(pid)), plain(name), self._job(pid))

    def _user(self, pid: int) -> str:
        try:
            uid = os.stat(self._proc / str(pid)).st_uid  # noqa: PTH116 - half the cost, each second
        except OSError:
            return ""
        try:
            return pwd.getpwuid(uid).pw_name
        except KeyError:
            return str(uid)

    def _job(self, pid: int) -> str | None:
        for _ in range(_MOST_ANCESTORS):
            for entry in _read(self._proc / str(pid) / "environ").split(b"\0"):
                if entry.startswith(MARK) and is_id(job := entry[len(MARK) :].decode(errors="replace")):
                    return job
            stat = self._stat(pid)
            if stat is None or (pid := int(stat[_PARENT])) <= 1:
                return None
        return None

    def _stat(self, pid: int) -> list[str] | None:
        """Fields from the state on; None if there is no such process."""
        fields = _read(self._proc / str(pid) / "stat").decode(errors="replace").rpartition(")")[2].split()
        return fields if len(fields) > _STARTED else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
