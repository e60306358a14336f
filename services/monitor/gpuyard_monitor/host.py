"""Facts about this machine from /proc and /sys. What can't be read is unknown, never an error."""

import re
from dataclasses import dataclass
from pathlib import Path

from gpuyard.contracts.hardware import Host
from gpuyard.topology.matrix_text import Affinity
from gpuyard_monitor.core.plain import plain

ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Ticks since boot, over all CPUs."""

    busy: int
    total: int


def read_host(root: Path = ROOT) -> Host:
    """What the machine is."""
    return Host(
        hostname=_line(root / "proc/sys/kernel/hostname"),
        cpus=len(re.findall(r"^cpu[0-9]+ ", _text(root / "proc/stat"), re.MULTILINE)) or None,
        memory_bytes=_memory_bytes(root, "MemTotal"),
        numa_nodes=_count(_line(root / "sys/devices/system/node/online")),
        kernel=_line(root / "proc/sys/kernel/osrelease"),
        boot_id=_line(root / "proc/sys/kernel/random/boot_id"),
    )


def read_cpu_times(root: Path = ROOT) -> CpuTimes | None:
    first = _text(root / "proc/stat").partition("\n")[0].split()
    if len(first) < 6 or first[0] != "cpu" or not all(word.isdecimal() for word in first[1:]):
        return None
    # user nice system idle iowait irq softirq steal; guest time is already part of user time.
    ticks = [int(word) for word in first[1:9]]
    return CpuTimes(busy=sum(ticks) - ticks[3] - ticks[4], total=sum(ticks))


def busy_frac(before: CpuTimes | None, after: CpuTimes | None) -> float | None:
    """Busy part of all CPUs between two readings; None if either is missing or no time passed."""
    if before is None or after is None or after.total <= before.total:
        return None
    # The kernel's idle counters may step back a little.
    return min(max((after.busy - before.busy) / (after.total - before.total), 0.0), 1.0)


def read_memory_used_bytes(root: Path = ROOT) -> int | None:
    """Memory that can't be had without swapping; caches don't count."""
    total, available = _memory_bytes(root, "MemTotal"), _memory_bytes(root, "MemAvailable")
    return None if total is None or available is None else max(total - available, 0)


def read_affinity(bus_id: str, root: Path = ROOT) -> Affinity:
    """CPU side of a PCI device, by the id that NVML gives: `00000000:3B:00.0`."""
    folder = pci_folder(bus_id, root)
    return Affinity(cpus=_line(folder / "local_cpulist") or None, numa=read_numa(folder))


def read_numa(folder: Path) -> int | None:
    """NUMA node of a device; the kernel writes -1 where the firmware does not tell."""
    numa = _line(folder / "numa_node")
    return int(numa) if numa.isdecimal() else None


def pci_folder(bus_id: str, root: Path = ROOT) -> Path:
    """The kernel's folder of a PCI device. Its names have the short form of the domain."""
    domain, _, rest = bus_id.lower().partition(":")
    return root / "sys/bus/pci/devices" / f"{domain.lstrip('0').zfill(4)}:{rest}"


def _memory_bytes(root: Path, key: str) -> int | None:
    found = re.search(rf"^{key}: +([0-9]+) kB$", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _count(numbers: str) -> int | None:
    """How many numbers a kernel list such as `0-1,4` names."""
    total = 0
    for part in filter(None, numbers.split(",")):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            return None
        total += int(last or first) - int(first) + 1
    return total if total > 0 else None


def _line(path: Path) -> str:
    return plain(_text(path).strip())


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
