"""The last hour of one node's GPUs: a ring with a place for every second.

Four 4-byte numbers per second make 57,600 bytes for each GPU, taken once and kept. A second in which nothing
was read stays empty (NaN); of several readings in one second the last stays.
"""

import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gpuyard.contracts.hardware import GpuSample
from gpuyard.contracts.history import GpuHistory, History, HistoryQuery, Readings

KEPT_S = 3600
_FIELDS = ("utilisation", "memory_used_bytes", "power_w", "temperature_c")
_MOST_VALUES = 80_000
"""At most 9 bytes each, all must fit into one message."""


class Ring:
    """One value per second."""

    def __init__(self) -> None:
        self._values = array("f", [math.nan]) * KEPT_S
        self._newest: int | None = None

    @property
    def nbytes(self) -> int:
        return len(self._values) * self._values.itemsize

    def put(self, second: int, value: float | None) -> None:
        """Seconds must not go back; those left out are empty."""
        newest = second if self._newest is None else self._newest
        for gap in range(max(newest, second - KEPT_S) + 1, second):
            self._values[gap % KEPT_S] = math.nan
        self._values[second % KEPT_S] = math.nan if value is None else value
        self._newest = second

    def average(self, first: int, end: int) -> float | None:
        """Over the seconds from `first` to before `end`; None if all of them are empty."""
        values = [value for second in range(first, end) if not math.isnan(value := self._at(second))]
        return sum(values) / len(values) if values else None

    def _at(self, second: int) -> float:
        if self._newest is None or not self._newest - KEPT_S < second <= self._newest:
            return math.nan
        return self._values[second % KEPT_S]


class NodeHistory:
    """The rings of all GPUs of a node. A GPU that is gone keeps its ring, as long as others are read."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._rings: dict[str, tuple[Ring, ...]] = {}
        self._last_put: dict[str, float] = {}

    def put(self, gpus: Sequence[GpuSample], mono_s: float) -> None:
        for gpu in gpus:
            rings = self._rings.get(gpu.uuid)
            if rings is None:
                rings = self._rings[gpu.uuid] = tuple(Ring() for _ in _FIELDS)
            for ring, field in zip(rings, _FIELDS, strict=True):
                ring.put(int(mono_s), getattr(gpu, field))
            self._last_put[gpu.uuid] = mono_s
        self._forget(mono_s)

    def answer(self, query: HistoryQuery, at_s: float, mono_s: float) -> History:
        """The averages up to now. Steps are longer than asked for where the answer would be too large."""
        step_s = max(query.step_s, query.last_s * len(self._rings) * len(_FIELDS) / _MOST_VALUES)
        edges = _edges(int(mono_s) + 1, query.last_s, step_s)
        gpus = tuple(
            GpuHistory(uuid, *(_averages(ring, edges) for ring in rings))
            for uuid, rings in self._rings.items()
        )
        return History(self._node, at_s, step_s, gpus)

    def _forget(self, mono_s: float) -> None:
        """An hour after its last reading nothing of a GPU is left."""
        for uuid in [uuid for uuid, last_s in self._last_put.items() if mono_s - last_s > KEPT_S]:
            del self._rings[uuid], self._last_put[uuid]


def _edges(end: int, last_s: float, step_s: float) -> list[int]:
    """Whole seconds at which steps begin and end, oldest first; the last one is `end`."""
    steps = math.ceil(last_s / step_s)
    return [end - round(back * step_s) for back in range(steps, -1, -1)]


def _averages(ring: Ring, edges: Sequence[int]) -> Readings:
    return tuple(_spans(ring, edges))


def _spans(ring: Ring, edges: Sequence[int]) -> Iterator[float | None]:
    for first, end in pairwise(edges):
        value = ring.average(first, end)
        yield None if value is None else float(f"{value:.6g}")
