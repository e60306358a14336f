"""What /proc knows about processes."""

import os

from gpuyard_executor.supervisor.files import read_file


def stat_of(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state (field 3) on; None if there is no such process."""
    try:
        return read_file(f"/proc/{pid}/stat").decode(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208


def children_of(parent: int) -> list[int]:
    """Children of a process that still live."""
    stats = ((pid, stat_of(pid)) for pid in all_pids())
    return [pid for pid, stat in stats if stat and int(stat[1]) == parent and stat[0] != "Z"]
