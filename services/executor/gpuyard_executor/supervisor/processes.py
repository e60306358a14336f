"""What /proc knows about processes."""

import os


def stat_of(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state (field 3) on; None if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - no pathlib here
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def start_ticks(pid: int) -> int | None:
    """When the process began, in clock ticks since boot; with the id it names a process for good."""
    stat = stat_of(pid)
    return int(stat[19]) if stat else None


def all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208


def children_of(parent: int) -> list[int]:
    """Children of a process that still live."""
    stats = ((pid, stat_of(pid)) for pid in all_pids())
    return [pid for pid, stat in stats if stat and int(stat[1]) == parent and stat[0] != "Z"]
