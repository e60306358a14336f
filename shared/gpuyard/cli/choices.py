"""Why a job got these GPUs, in words for people: what their links are worth, and what was not taken. Pure."""

from gpuyard.cli import words
from gpuyard.contracts.placement import Alternative, Placement


def worth(placement: Placement) -> str:
    """What the links of a gang on one node are worth; empty if that is unknown."""
    parts = []
    if placement.bottleneck_gb_s is not None:
        parts.append(f"{_gb_s(placement.bottleneck_gb_s)} at the slowest link of the best ring")
    if placement.sum_gb_s is not None:
        parts.append(f"{_gb_s(placement.sum_gb_s)} over all links")
    return ", ".join(parts)


def not_taken(placement: Placement, indexes: words.Indexes) -> list[str]:
    """One line for each choice that was not made, the best first."""
    return [_line(other, indexes) for other in placement.rejected]


def _line(other: Alternative, indexes: words.Indexes) -> str:
    return f"node {other.node}: GPU {words.gpus_named(other.gpus, indexes)}: {other.why}"


def _gb_s(speed: float) -> str:
    return f"{round(speed, 1):g} GB/s"
