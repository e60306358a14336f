"""What one second of `gpuyard gpu-top` costs on a cluster of 1,000 GPUs, all of which change.

Samples are decoded and joined, all rows are filtered and ordered, and a screen of 60 lines is drawn in full.
"""

import io
import random
import time

from gpuyard.cli.gpu_top_frame import Picture, Size, frame
from gpuyard.cli.gpu_top_rows import Row, Sort, rows_of
from gpuyard.cli.gpu_top_screen import Screen
from gpuyard.cli.gpu_top_state import State
from gpuyard.client.cluster import Cluster
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.hardware import Gpu, GpuProcess, GpuSample, Inventory, Link, NodeSample
from tests.bench.figures import Figure

NODES, GPUS = 125, 8
RUNS = 9
SIZE = Size(200, 60)
STATE = State(sort=Sort.UTILISATION, text="h100")


class Terminal(io.StringIO):
    """Takes everything at once."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def measure() -> list[Figure]:
    chance = random.Random(1)
    cluster, screen = Cluster(), Screen(Terminal())
    for number in range(NODES):
        cluster.take_inventory(_inventory(f"node-{number}"))
    ticks_ms = []
    for run in range(RUNS):
        payloads = [encode(_sample(f"node-{number}", run, chance)) for number in range(NODES)]
        started_s = time.perf_counter()
        rows = _take(cluster, payloads, float(run))
        screen.draw(frame(Picture(rows, {}), STATE, SIZE))
        ticks_ms.append(1000 * (time.perf_counter() - started_s))
    return [Figure("gpu-top, one redraw of 1,000 GPUs", "ms", tuple(ticks_ms), "under 100 ms", 100)]


def _take(cluster: Cluster, payloads: list[bytes], now_s: float) -> list[Row]:
    for payload in payloads:
        cluster.take_sample(decode(payload, NodeSample), now_s)
    return rows_of(cluster.views(now_s))


def _inventory(node: str) -> Inventory:
    gpus = tuple(
        Gpu(f"GPU-{node}-{index}", index, "NVIDIA H100 80GB HBM3", 80 << 30, power_limit_w=700.0)
        for index in range(GPUS)
    )
    links = tuple(Link(a, b, nvlinks=18, gb_s=370.0) for a in range(GPUS) for b in range(a + 1, GPUS))
    return Inventory(node, 1.0, gpus=gpus, links=links)


def _sample(node: str, seq: int, chance: random.Random) -> NodeSample:
    gpus = tuple(
        GpuSample(
            f"GPU-{node}-{index}",
            utilisation=chance.random(),
            memory_used_bytes=chance.randrange(80 << 30),
            power_w=700 * chance.random(),
            temperature_c=30 + 50 * chance.random(),
            processes=(GpuProcess(4711, 1 << 30, "alice", "python", "train-abc"),),
            clock_reasons=("power_cap",),
        )
        for index in range(GPUS)
    )
    return NodeSample(node, 1.0, seq, cpu=chance.random(), gpus=gpus)
