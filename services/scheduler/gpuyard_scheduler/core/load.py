"""Measured load of GPUs that nobody was given, in coarse levels, so that noise changes no decision.

A level changes only after several samples in a row that are off it. The aftermath of a job that has just
ended is gone by then, and what was computed for a level stays remembered. A lost sample delays, no more.
"""

from bisect import bisect
from collections.abc import Container
from typing import NamedTuple

from msgspec import Struct

from gpuyard_scheduler.core.events import LoadSeen

_GIB = 1024**3
BUSY_FROM = (0.05, 0.3, 0.7)
"""Utilisation from which a GPU is at level 1, 2, 3."""
FULL_FROM_BYTES = (4 * _GIB, 16 * _GIB, 40 * _GIB)
"""Used memory from which a GPU is at level 1, 2, 3."""
SAMPLES_IN_A_ROW = 3


class GpuLook(Struct, frozen=True):
    """What is read of a `GpuSample`; the rest is not even decoded."""

    uuid: str
    utilisation: float | None = None
    memory_used_bytes: int | None = None


class NodeLook(Struct, frozen=True):
    """What is read of a `NodeSample`."""

    node: str
    gpus: tuple[GpuLook, ...] = ()


class _Reading(NamedTuple):
    level: int = 0
    off: int = 0
    """Samples in a row that said something else."""


class Loads:
    """Follows the samples of all nodes."""

    def __init__(self) -> None:
        self._readings: dict[str, dict[str, _Reading]] = {}

    def see(self, look: NodeLook, held: Container[str]) -> LoadSeen | None:
        """Take in a sample; return the node's levels if one of them changed. `held` GPUs count as idle."""
        before = self._readings.get(look.node, {})
        after = {
            gpu.uuid: _followed(before.get(gpu.uuid, _IDLE), level_of(gpu))
            for gpu in look.gpus
            if gpu.uuid not in held
        }
        self._readings[look.node] = after
        levels = _levels(after)
        return LoadSeen(look.node, levels) if levels != _levels(before) else None


_IDLE = _Reading()


def level_of(gpu: GpuLook) -> int:
    """0 for idle to 3 for busy, by whatever is known."""
    return max(bisect(BUSY_FROM, gpu.utilisation or 0.0), bisect(FULL_FROM_BYTES, gpu.memory_used_bytes or 0))


def _followed(reading: _Reading, level: int) -> _Reading:
    if level == reading.level:
        return reading if not reading.off else _Reading(level)
    off = reading.off + 1
    return _Reading(level) if off == SAMPLES_IN_A_ROW else _Reading(reading.level, off)


def _levels(readings: dict[str, _Reading]) -> dict[str, int]:
    return {gpu: reading.level for gpu, reading in readings.items() if reading.level}
