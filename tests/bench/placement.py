"""How long the choice of GPUs takes, from scratch and remembered."""

import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations

from gpuyard.contracts.hardware import Level, Link
from gpuyard.topology import captures
from gpuyard.topology.captured import captured_inventory
from gpuyard.topology.choice import choose, decided
from gpuyard.topology.matrix_text import Affinity
from gpuyard.topology.ring import bits_of
from gpuyard.topology.search import graph_at, terrain_of
from gpuyard.topology.shape import Shape, shape_of, shape_of_parts
from tests.bench.figures import Figure, percentile

RUNS = 3
# Each decision is timed so often and the least counts, since the machine has noise of its own.
TIMES = 3
DGX2 = "dgx2-v100-16gpu-derived"

Decision = tuple[Shape, int, int]


def measure() -> list[Figure]:
    eight = [decision for shape in eight_gpu_shapes().values() for decision in _all_decisions(shape)]
    sixteen = list(_sampled_decisions(shape_of(captured_inventory(captures.load(DGX2)))))
    irregular = [decision for seed in range(3) for decision in _sampled_decisions(_irregular(seed), 8)]
    return [
        *_cold("8 GPUs, all captures", eight, 1000),
        _warm("8 GPUs, all captures", eight, 20),
        *_cold("16 GPUs of a DGX-2", sixteen, 5000),
        _warm("16 GPUs of a DGX-2", sixteen, 50),
        *_cold("16 GPUs, random bandwidths", irregular, None),
        _building("8 GPUs, all captures", list(eight_gpu_shapes())),
        _building("16 GPUs of a DGX-2", [DGX2]),
    ]


def eight_gpu_shapes() -> dict[str, Shape]:
    """The captures of 8 GPUs, those of equal shape once."""
    shapes = {name: shape_of(captured_inventory(captures.load(name))) for name in captures.names()}
    distinct = {shape: name for name, shape in reversed(shapes.items()) if shape.size == 8}
    return {name: shape for shape, name in reversed(distinct.items())}


def _all_decisions(shape: Shape) -> Iterator[Decision]:
    for free in range(1, 1 << shape.size):
        for count in range(1, free.bit_count() + 1):
            yield shape, free, count


def _sampled_decisions(shape: Shape, frees: int = 100) -> Iterator[Decision]:
    dice = random.Random(16)
    everything = (1 << shape.size) - 1
    for free in (everything, *(dice.randrange(1, everything) for _ in range(frees))):
        for count in range(1, free.bit_count() + 1):
            yield shape, free, count


def _irregular(seed: int) -> Shape:
    dice = random.Random(seed)
    links = [
        Link(a, b, Level.SYSTEM, gb_s=round(dice.uniform(5, 100), 1)) for a, b in combinations(range(16), 2)
    ]
    return shape_of_parts([Affinity()] * 16, links)


def _cold(what: str, decisions: list[Decision], limit_us: float | None) -> list[Figure]:
    for shape in {shape for shape, _, _ in decisions}:
        terrain_of(shape)
    runs = [
        [_least_us(partial(decided, *decision, ()), _forget) for decision in decisions] for _ in range(RUNS)
    ]
    most = tuple(max(run) for run in runs)
    promise = "" if limit_us is None else f"under {limit_us / 1000:g} ms"
    return [
        Figure(f"choice among {what}, cold, p50", "us", tuple(percentile(run, 50) for run in runs)),
        Figure(f"choice among {what}, cold, p99", "us", tuple(percentile(run, 99) for run in runs)),
        Figure(f"choice among {what}, cold, slowest", "us", most, promise, limit_us),
    ]


def _forget() -> None:
    graph_at.cache_clear()
    bits_of.cache_clear()


def _warm(what: str, decisions: list[Decision], limit_us: float) -> Figure:
    runs = []
    for _ in range(RUNS):
        slowest = 0.0
        for shape, free, count in decisions[-5000:]:
            again = partial(choose, shape, bits_of(free), count)
            again()
            slowest = max(slowest, _least_us(again))
        runs.append(slowest)
    return Figure(
        f"choice among {what}, warm, slowest", "us", tuple(runs), f"under {limit_us:g} us", limit_us
    )


def _building(what: str, names: list[str]) -> Figure:
    inventories = [captured_inventory(captures.load(name)) for name in names]

    def build() -> None:
        for inventory in inventories:
            terrain_of(shape_of(inventory))

    runs = []
    for _ in range(RUNS):
        terrain_of.cache_clear()
        started_s = time.perf_counter()
        build()
        runs.append((time.perf_counter() - started_s) / len(names) * 1e6)
    return Figure(f"shape of {what}, once per model", "us", tuple(runs))


def _least_us(act: Callable[[], object], forget: Callable[[], None] = lambda: None) -> float:
    least_s = float("inf")
    for _ in range(TIMES):
        forget()
        started_s = time.perf_counter()
        act()
        least_s = min(least_s, time.perf_counter() - started_s)
    return least_s * 1e6
