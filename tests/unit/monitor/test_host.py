from pathlib import Path

import pytest

from gpuyard.contracts.hardware import Host
from gpuyard.topology.matrix_text import Affinity
from gpuyard_monitor import host
from gpuyard_monitor.host import CpuTimes

STAT = (
    "cpu  100 0 50 800 40 0 5 5 0 0\ncpu0 50 0 25 400 20 0 3 2 0 0\ncpu1 50 0 25 400 20 0 2 3 0 0\nintr 5\n"
)
MEMINFO = "MemTotal:       2048 kB\nMemFree:        100 kB\nMemAvailable:   1024 kB\n"
FILES = {
    "proc/stat": STAT,
    "proc/meminfo": MEMINFO,
    "proc/sys/kernel/hostname": "box-7\n",
    "proc/sys/kernel/osrelease": "6.1.0\n",
    "proc/sys/kernel/random/boot_id": "0af4\n",
    "sys/devices/system/node/online": "0-1,4\n",
    "sys/bus/pci/devices/0000:3b:00.0/numa_node": "1\n",
    "sys/bus/pci/devices/0000:3b:00.0/local_cpulist": "16-31\n",
    "sys/bus/pci/devices/0001:af:00.0/numa_node": "-1\n",
    "sys/bus/pci/devices/10000:e1:00.0/numa_node": "0\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_the_machine_is(root: Path) -> None:
    assert host.read_host(root) == Host("box-7", 2, 2048 * 1024, 3, "6.1.0", "", "0af4")


def test_a_machine_that_tells_nothing_is_unknown(tmp_path: Path) -> None:
    assert host.read_host(tmp_path) == Host()
    assert host.read_cpu_times(tmp_path) is None
    assert host.read_memory_used_bytes(tmp_path) is None
    assert host.read_affinity("00000000:3B:00.0", tmp_path) == Affinity()


@pytest.mark.parametrize("text", ["", "cpu\n", "cpu a b c d e f\n", "cpu 1 2 3\n", "\x00\xff"])
def test_garbled_kernel_files_are_unknown(tmp_path: Path, text: str) -> None:
    for name in ("proc/stat", "proc/meminfo", "sys/devices/system/node/online"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert host.read_cpu_times(tmp_path) is None
    assert host.read_memory_used_bytes(tmp_path) is None
    assert host.read_host(tmp_path).numa_nodes is None


def test_memory_used_leaves_caches_out(root: Path) -> None:
    assert host.read_memory_used_bytes(root) == 1024 * 1024


def test_cpu_times_count_waiting_as_idle(root: Path) -> None:
    assert host.read_cpu_times(root) == CpuTimes(busy=160, total=1000)


@pytest.mark.parametrize(
    ("before", "after", "frac"),
    [
        (CpuTimes(100, 1000), CpuTimes(150, 1100), 0.5),
        (CpuTimes(100, 1000), CpuTimes(100, 1100), 0.0),
        (CpuTimes(100, 1000), CpuTimes(90, 1100), 0.0),
        (CpuTimes(100, 1000), CpuTimes(300, 1100), 1.0),
        (CpuTimes(100, 1000), CpuTimes(100, 1000), None),
        (None, CpuTimes(100, 1000), None),
        (CpuTimes(100, 1000), None, None),
    ],
)
def test_busy_part_between_two_readings(
    before: CpuTimes | None, after: CpuTimes | None, frac: float | None
) -> None:
    assert host.busy_frac(before, after) == frac


def test_affinity_of_a_pci_device(root: Path) -> None:
    assert host.read_affinity("00000000:3B:00.0", root) == Affinity("16-31", 1)
    assert host.read_affinity("00000001:AF:00.0", root) == Affinity(None, None)
    assert host.read_affinity("00010000:E1:00.0", root) == Affinity(None, 0)


def test_the_real_machine_tells_something() -> None:
    facts = host.read_host()
    assert facts.cpus
    assert facts.memory_bytes
    assert facts.hostname
    assert facts.boot_id
    assert 0 < (host.read_memory_used_bytes() or 0) < facts.memory_bytes
