"""A yard of its own for a benchmark: one simulated node of eight GPUs."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GPUYARD = (sys.executable, "-m", "gpuyard")
CAPTURE = "azure-ndv2-v100-8gpu"


@contextmanager
def running_yard(capture: str = CAPTURE) -> Iterator[Path]:
    """Start a yard in a fresh directory; stop it afterwards."""
    with tempfile.TemporaryDirectory(prefix="gy-bench-") as folder:
        place = Path(folder) / "yard"
        up = (*GPUYARD, "up", "--detach", "--dir", str(place), "--simulate", capture, "--no-local")
        subprocess.run(up, check=True, stdout=subprocess.DEVNULL)
        try:
            yield place
        finally:
            subprocess.run((*GPUYARD, "down", "--dir", str(place)), check=True, stdout=subprocess.DEVNULL)
