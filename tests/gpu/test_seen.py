"""What the monitor sees of real GPUs. Prints it, so that a person can compare with `nvidia-smi`."""

import getpass
import importlib.util
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuyard.contracts.codec import validated
from gpuyard.contracts.hardware import Inventory
from gpuyard_monitor import host
from gpuyard_monitor.core.readings import Found, Reading
from gpuyard_monitor.nvml import Nvml
from gpuyard_monitor.processes import Processes

pytestmark = pytest.mark.gpu

PATIENCE_S = 90.0


@pytest.fixture
def busy(found: Found) -> Iterator[subprocess.Popen[str]]:
    """A process that computes on torch's first GPU."""
    if importlib.util.find_spec("torch") is None or not _torch_has_gpu():
        pytest.skip("torch is missing, or sees no GPU")
    program = [sys.executable, str(Path(__file__).with_name("busy_gpu.py"))]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout
        assert running.stdout.readline() == "busy\n"
        yield running


def _torch_has_gpu() -> bool:
    """Asked in a process of its own: CUDA would stay open in this one."""
    ask = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", ask], check=False).returncode == 0


def until(nvml: Nvml, holds: Callable[[tuple[Reading, ...]], bool]) -> tuple[Reading, ...]:
    """Read until something holds, as long as patience lasts; the last readings."""
    deadline_s = time.monotonic() + PATIENCE_S
    for _ in itertools.count():
        readings = nvml.read()
        if holds(readings) or time.monotonic() > deadline_s:
            return readings
    raise AssertionError


def test_the_inventory_is_complete(nvml: Nvml, found: Found) -> None:
    print(f"\ndriver {nvml.driver()}, {found.count} GPUs")
    for gpu in found.gpus:
        print(" ", gpu)
        assert gpu.uuid.startswith("GPU-")
        assert gpu.model
        assert gpu.memory_bytes is None or gpu.memory_bytes > 1 << 30
        assert gpu.compute_capability
        assert host.pci_folder(gpu.bus_id).name in gpu.bus_id.lower()
    assert found.count == len(found.gpus) + found.missing
    validated(Inventory("n1", 0.0, gpus=found.gpus, links=found.links, nics=found.nics))


def test_the_links_are_complete(found: Found) -> None:
    pairs = [(link.a, link.b) for link in found.links]
    assert pairs == list(itertools.combinations(range(len(found.gpus)), 2))
    for link in found.links:
        print(" ", link)
        assert link.level or link.nvlinks
        assert link.gb_s
        assert link.p2p is not None
    for nic in found.nics:
        print(" ", nic)


def test_readings_are_plausible(nvml: Nvml, found: Found) -> None:
    calls = nvml.calls
    cheap = nvml.read()
    print(f"\n{nvml.calls - calls} calls for a cheap look at {len(cheap)} GPUs")
    calls = nvml.calls
    readings = nvml.read(paced=True)
    print(f"{nvml.calls - calls} calls for a paced one")
    assert [reading.uuid for reading in readings] == [gpu.uuid for gpu in found.gpus]
    for reading, gpu in zip(readings, found.gpus, strict=True):
        print(" ", reading)
        assert not reading.lost
        assert reading.memory_used_bytes is None or 0 <= reading.memory_used_bytes <= (gpu.memory_bytes or 0)
        assert reading.utilisation is None or 0 <= reading.utilisation <= 1
        assert reading.power_w is None or 0 < reading.power_w < 3000
        assert reading.temperature_c is None or 0 < reading.temperature_c < 120
        assert reading.nvlinks_active in (None, gpu.nvlinks)
        assert reading.recovery in (None, "none")


def test_no_errors_come_from_looking(nvml: Nvml, found: Found) -> None:
    print("\n ", nvml.xids())
    assert nvml.xids() == ()


def test_a_program_that_computes_is_seen(nvml: Nvml, found: Found, busy: subprocess.Popen[str]) -> None:
    """By its load, its memory and, outside of containers, its process with its owner."""
    readings = until(nvml, lambda now: any((one.utilisation or 0) > 0.5 for one in now))
    used = max(readings, key=lambda one: one.utilisation or 0)
    pids = {one.pid for one in used.processes or ()}
    origins = Processes().origins(pids)
    print(f"\n  {used}\n  started process {busy.pid}, the driver names {origins or pids}")
    if used.utilisation is None:
        pytest.skip("this GPU does not tell its utilisation (MIG)")
    assert used.utilisation > 0.5
    assert used.memory_used_bytes is None or used.memory_used_bytes > 64 << 20
    assert pids or used.processes is None
    # The driver knows processes by the host's pids, which mean others inside a container.
    assert busy.pid not in pids or origins[busy.pid].user == getpass.getuser()
