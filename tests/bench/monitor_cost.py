"""What a monitor costs that watches eight GPUs: processor time, memory, and questions to the driver.

The GPUs are those of the stand-in for the driver that the tests use; bus, binding and monitor are real.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuyard.topology import captures
from tests.bench.figures import Figure
from tests.natsd import NatsServer
from tests.unit.monitor import fake_nvml
from tests.unit.monitor.fake_nvml import FakeDriver

CAPTURE = "dgx-h100-8gpu-10hca"
SETTLE_S, SECONDS, RUNS = 10.0, 20.0, 3


def is_available() -> bool:
    """The stand-in needs a compiler."""
    return fake_nvml.compiler() is not None


def measure() -> list[Figure]:
    processor, memory, questions = [], [], []
    with tempfile.TemporaryDirectory(prefix="gy-bench-") as folder:
        driver = FakeDriver.of(captures.load(CAPTURE), Path(folder))
        for gpu in driver.gpus[: driver.count]:
            gpu.run(os.getpid())
        with NatsServer(Path(folder) / "nats") as server, _monitor(driver, server.url) as pid:
            time.sleep(SETTLE_S)
            for _ in range(RUNS):
                calls, cpu_s, started_s = driver.calls, _cpu_s(pid), time.monotonic()
                time.sleep(SECONDS)
                passed_s = time.monotonic() - started_s
                processor.append(100 * (_cpu_s(pid) - cpu_s) / passed_s)
                questions.append((driver.calls - calls) / passed_s)
                memory.append(_resident_mib(pid))
    return [
        Figure("monitor, 8 GPUs at 1 Hz", "% of a core", tuple(processor), "under 1 %", 1),
        Figure("monitor, 8 GPUs at 1 Hz", "MiB (RSS)", tuple(memory), "under 60 MB", 60e6 / 2**20),
        Figure("monitor, 8 GPUs at 1 Hz", "NVML calls/s", tuple(questions)),
    ]


@contextmanager
def _monitor(driver: FakeDriver, url: str) -> Iterator[int]:
    environment = os.environ | driver.environment() | {"GPUYARD_BUS__URL": url}
    command = (sys.executable, "-m", "gpuyard_monitor", "--nodes", '[{"id": "box-1"}]')
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))
