"""How long after a program printed a line a follower sees it, at 1,000 lines/s."""

import sys
import time
from pathlib import Path

from gpuyard import AsyncClient, JobSpec, TaskSpec
from tests.bench.figures import Figure, percentile

SECONDS = 10
RUNS = 3
_PRINTER = f"""
import sys, time
start = time.time()
for n in range({SECONDS} * 1000):
    time.sleep(max(0, start + n / 1000 - time.time()))
    print(time.time(), "step", n, "loss 0.1234 lr 0.001 img/s 512.0", flush=True)
"""


async def measure(yard: Path) -> list[Figure]:
    runs = [await _run(yard) for _ in range(RUNS)]
    return [
        Figure("follow lag at 1,000 lines/s, p50", "ms", tuple(percentile(run, 50) for run in runs)),
        Figure(
            "follow lag at 1,000 lines/s, p99",
            "ms",
            tuple(percentile(run, 99) for run in runs),
            "at most 100 ms",
            100,
        ),
    ]


async def _run(yard: Path) -> list[float]:
    spec = JobSpec((TaskSpec((sys.executable, "-c", _PRINTER), gpus=1),), name="printer")
    async with AsyncClient(dir=yard) as client:
        lines = client.logs(await client.submit(spec), follow=True)
        lags_ms = [(time.time() - float(line.text.split(maxsplit=1)[0])) * 1000 async for line in lines]
    assert len(lags_ms) == SECONDS * 1000, f"{len(lags_ms)} lines"
    return lags_ms
