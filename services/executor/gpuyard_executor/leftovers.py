"""Processes of a rank whose supervisor was killed.

The rank's first process died with it. What that one had started is known by its session, or by a mark in its
environment, which every descendant inherits; neither is fooled by a process id that is used again.
"""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from gpuyard_executor.supervisor.processes import all_pids, stat_of

MARK = "GPUYARD_RANK_DIR"
_ROUND_S, _LONGEST_ROUND_S = 0.02, 1.0


async def kill_leftovers(directory: Path, leader: int) -> None:
    """Kill until nothing is left, however long that takes."""
    round_s = _ROUND_S
    while await asyncio.to_thread(_kill_once, directory, leader):
        await asyncio.sleep(round_s)
        round_s = min(2 * round_s, _LONGEST_ROUND_S)  # one in the kernel's hands may stay for hours


def _kill_once(directory: Path, leader: int) -> bool:
    found = find_leftovers(directory, leader)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


def find_leftovers(directory: Path, leader: int) -> list[int]:
    """Living processes of the rank."""
    mark = b"\0" + f"{MARK}={directory}".encode(errors="surrogateescape") + b"\0"
    session = _own_session(leader, mark)
    return [pid for pid in all_pids() if _is_of(pid, session, mark)]


def _own_session(leader: int, mark: bytes) -> int | None:
    """The rank's session; None if its number belongs to somebody else by now.

    While one process of a session lives, its number is not given again. So it is ours unless a leader lives
    that is not: ours was killed together with its supervisor.
    """
    return leader if not _is_alive(leader) or _has_mark(leader, mark) else None


def _is_alive(pid: int) -> bool:
    stat = stat_of(pid)
    return stat is not None and stat[0] not in "ZX"


def _is_of(pid: int, session: int | None, mark: bytes) -> bool:
    stat = stat_of(pid)
    if stat is None or stat[0] in "ZX":
        return False
    return (session is not None and int(stat[3]) == session) or _has_mark(pid, mark)


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        return mark in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
