"""How long the command line takes to answer."""

import subprocess
import sys
import time
from pathlib import Path

from tests.bench.figures import Figure

RUNS = 9
_GPUYARD = str(Path(sys.executable).parent / "gpuyard")


def measure(yard: Path) -> list[Figure]:
    return [
        Figure("gpuyard --version", "s", _time(_GPUYARD, "--version"), "under 0.2 s", 0.2),
        Figure("gpuyard ps", "s", _time(_GPUYARD, "ps", "--dir", str(yard)), "under 0.5 s", 0.5),
    ]


def _time(*command: str) -> tuple[float, ...]:
    runs = []
    for _ in range(RUNS):
        started_s = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        runs.append(time.monotonic() - started_s)
    return tuple(runs)
