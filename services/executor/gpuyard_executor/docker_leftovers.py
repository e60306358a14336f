"""Processes of a container of which the engine knows nothing any more.

An engine that is killed while it starts a container holds it for not started after its return, but the
program runs. It is known by its cgroup, which bears the container's id and which it can't leave.
"""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

from gpuyard_executor.supervisor.processes import all_pids

_ROUND_S, _LONGEST_ROUND_S = 0.02, 1.0


async def has_leftovers(container: str) -> bool:
    return bool(await asyncio.to_thread(_find, container))


async def kill_leftovers(container: str) -> None:
    """Kill until nothing is left, however long that takes."""
    round_s = _ROUND_S
    while await asyncio.to_thread(_kill_once, container):
        await asyncio.sleep(round_s)
        round_s = min(2 * round_s, _LONGEST_ROUND_S)


def _kill_once(container: str) -> bool:
    found = _find(container)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return bool(found)


def _find(container: str) -> list[int]:
    """Living processes of a container; `container` is its whole id."""
    return [pid for pid in all_pids() if container in _cgroups(pid)]


def _cgroups(pid: int) -> str:
    """Of a process that is dead and not collected, the root's."""
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return ""
