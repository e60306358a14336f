"""What a yard costs while nothing happens: processor time and memory of all its processes."""

import os
import time
from pathlib import Path

from tests.bench.figures import Figure

SECONDS = 20
RUNS = 3


def measure(yard: Path) -> list[Figure]:
    time.sleep(5)  # what starting has left to do is over by then
    processor, memory = [], []
    for _ in range(RUNS):
        before_s, started_s = _cpu_s(yard), time.monotonic()
        time.sleep(SECONDS)
        processor.append(100 * (_cpu_s(yard) - before_s) / (time.monotonic() - started_s))
        memory.append(sum(_pss_mib(pid) for pid in _processes(yard)))
    return [
        Figure("idle, all processes", "% of a core", tuple(processor), "under 2 %", 2),
        Figure("idle, all processes", "MiB (PSS)", tuple(memory), "under 250 MiB", 250),
    ]


def _processes(yard: Path) -> list[Path]:
    """Everything whose command line or current directory names the yard, and its children."""
    own = {path for path in Path("/proc").glob("[0-9]*") if _belongs(path, str(yard))}
    while more := {path for path in Path("/proc").glob("[0-9]*") if _parent(path) in own} - own:
        own |= more
    return sorted(own)


def _belongs(path: Path, yard: str) -> bool:
    try:
        return yard.encode() in (path / "cmdline").read_bytes()
    except OSError:
        return False


def _parent(path: Path) -> Path | None:
    try:
        return path.parent / (path / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return None


def _cpu_s(yard: Path) -> float:
    ticks = 0
    for path in _processes(yard):
        fields = (path / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _pss_mib(path: Path) -> float:
    for line in (path / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0
