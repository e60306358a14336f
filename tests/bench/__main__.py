"""Run every benchmark, print JSON, write docs/benchmarks.md."""

import asyncio
import json
import os
import platform
import sys
import time
from pathlib import Path

from tests.bench import (
    follow_lag,
    gpu_top,
    idle,
    launch,
    logs_query,
    monitor_cost,
    numbers,
    placement,
    placement_quality,
    slurm,
    start_up,
    throughput,
)
from tests.bench.figures import Figure
from tests.bench.report import render
from tests.bench.yard import running_yard

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def machine() -> dict[str, object]:
    """What was measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def measure() -> list[Figure]:
    figures: list[Figure] = []
    with running_yard() as yard:
        figures += idle.measure(yard)
        figures += start_up.measure(yard)
        figures += asyncio.run(launch.measure(yard))
        figures += asyncio.run(follow_lag.measure(yard))
        figures += asyncio.run(throughput.measure(yard))
    figures += asyncio.run(logs_query.measure())
    figures += numbers.measure()
    if monitor_cost.is_available():
        figures += monitor_cost.measure()
    if slurm.is_available():
        ours = next(figure for figure in figures if figure.unit == "jobs/s")
        theirs = slurm.measure()[0]
        ratio = tuple(a / b for a, b in zip(ours.runs, theirs.runs, strict=True))
        figures += [
            theirs,
            Figure("no-op jobs, times Slurm", "x", ratio, "at least 5 times", 5, more_is_better=True),
        ]
    return figures


def main() -> int:
    quality, rows = placement_quality.measure()
    figures = [*measure(), *gpu_top.measure(), *placement.measure(), *quality]
    result = {
        "at": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": machine(),
        "figures": [figure.as_json() for figure in figures],
        "placement": [row.as_json() for row in rows],
    }
    print(json.dumps(result, indent=2))
    PAGE.write_text(render(result))
    return 0 if all(figure.holds is not False for figure in figures) else 1


sys.exit(main())
