"""Whether a GPU is free, in words that fit beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from gpuyard.contracts.hardware import Gpu, Health

Holders = Mapping[str, str]
"""Who holds each GPU that is taken, by UUID."""


class Standing(StrEnum):
    """What a GPU is to somebody who looks for one."""

    FREE = "free"
    TAKEN = "taken"
    OUT = "out of service"


@dataclass(frozen=True, slots=True)
class Occupancy:
    """A standing, and who or what is behind it."""

    standing: Standing
    words: str


def occupancy(gpu: Gpu, holders: Holders) -> Occupancy:
    """What is worse comes first: a held GPU that is out of service is out."""
    if gpu.health is not Health.OK:
        return Occupancy(Standing.OUT, gpu.health_reason or gpu.health.replace("_", " "))
    if gpu.uuid in holders:
        return Occupancy(Standing.TAKEN, holders[gpu.uuid])
    return Occupancy(Standing.FREE, "free")
