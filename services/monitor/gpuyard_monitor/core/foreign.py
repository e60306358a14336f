"""Whose the processes on a GPU are, and which of them nobody scheduled.

A process is a job's if it carries the job's mark and the job holds the GPU. Others may be on their way out or
in, since facts and processes are not seen at the same moment: only one that stays makes the GPU foreign.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gpuyard.contracts.hardware import GpuProcess
from gpuyard_monitor.core.readings import RawProcess

GRACE_S = 3.0
_MOST_TOLD = 3


@dataclass(frozen=True, slots=True)
class Origin:
    """What the system knows of a process; `job` is what its mark says."""

    user: str = ""
    name: str = ""
    job: str | None = None


UNKNOWN = Origin()
Seen = Mapping[int, float]
"""Since when each process that nobody scheduled has been on the GPU, by its id."""


def owned(
    processes: Sequence[RawProcess], origins: Mapping[int, Origin], holders: Collection[str] | None
) -> tuple[GpuProcess, ...]:
    """The processes with their owners.

    Args:
        holders: jobs that hold the GPU; None if that is not known, and a mark alone is believed.

    """
    return tuple(_owned(process, origins.get(process.pid, UNKNOWN), holders) for process in processes)


def strangers(
    seen: Seen | None, processes: Sequence[GpuProcess], tolerated: Collection[str], mono_s: float
) -> Seen:
    """Processes that nobody scheduled, each since it was first seen; some programs are tolerated.

    Args:
        seen: None at the first look: what is there then did not come just now.

    """
    return {
        process.pid: -math.inf if seen is None else seen.get(process.pid, mono_s)
        for process in processes
        if process.job is None and process.name not in tolerated
    }


def complaint(seen: Seen, processes: Sequence[GpuProcess], mono_s: float) -> str:
    """Why the GPU is foreign; empty if it is not."""
    staying = [one for one in processes if one.pid in seen and mono_s - seen[one.pid] >= GRACE_S]
    if not staying:
        return ""
    told = ", ".join(map(_told, staying[:_MOST_TOLD]))
    more = f" and {len(staying) - _MOST_TOLD} more" if len(staying) > _MOST_TOLD else ""
    return f"used by processes that nobody scheduled: {told}{more}; free again once they have ended"


def _owned(process: RawProcess, origin: Origin, holders: Collection[str] | None) -> GpuProcess:
    is_scheduled = holders is None or origin.job in holders
    job = origin.job if is_scheduled else None
    return GpuProcess(process.pid, process.memory_bytes, origin.user, origin.name, job)


def _told(process: GpuProcess) -> str:
    return f"{process.name or 'unknown'} of {process.user or 'unknown'} (pid {process.pid})"
