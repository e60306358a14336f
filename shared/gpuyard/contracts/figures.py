"""Measured bandwidths of a node's links, on their way from a probe to the node's monitor.

The monitor checks them against the hardware it sees and carries them in the node's inventory, so that
whoever places work reads one truth about a link.
"""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Seconds
from gpuyard.contracts.ids import GpuId, NodeId

MOST_GB_S = 100_000
GbS = Annotated[float, Meta(gt=0, le=MOST_GB_S, description="GB/s.")]


class PairFigure(Struct, frozen=True):
    """Bandwidth between two GPUs, one way; the slower of both ways."""

    a: GpuId
    b: GpuId
    gb_s: GbS
    sound: Annotated[bool, Meta(description="Every payload arrived as it was sent.")] = True


class GroupFigure(Struct, frozen=True):
    """Bus bandwidth of an all-reduce over so many GPUs."""

    gpus: Annotated[int, Meta(ge=2, le=1024)]
    gb_s: GbS


class Figures(Struct, frozen=True):
    """What one probe measured on one node."""

    node: NodeId
    at_s: Seconds
    probe: Annotated[str, Meta(max_length=63, description="The job that measured.")]
    pairs: Annotated[tuple[PairFigure, ...], Meta(max_length=8128)] = ()
    groups: Annotated[tuple[GroupFigure, ...], Meta(max_length=1024)] = ()
