"""The last hour of a node's GPUs: question and answer."""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Seconds
from gpuyard.contracts.ids import GpuId, NodeId

Readings = tuple[float | None, ...]


class HistoryQuery(Struct, frozen=True):
    """Give me the newest readings, thinned out to one per `step_s`."""

    last_s: Annotated[float, Meta(gt=0, le=3600, description="How far back, seconds.")] = 600.0
    step_s: Annotated[float, Meta(ge=1, le=600, description="Seconds that one value averages.")] = 10.0


class GpuHistory(Struct, frozen=True):
    """Averages of one GPU, oldest first; None where nothing was read."""

    uuid: GpuId
    utilisation: Readings = ()
    memory_used_bytes: Readings = ()
    power_w: Readings = ()
    temperature_c: Readings = ()


class History(Struct, frozen=True, tag="history", tag_field="type"):
    """The last values end at `until_s`."""

    node: NodeId
    until_s: Seconds
    step_s: float
    gpus: tuple[GpuHistory, ...] = ()
