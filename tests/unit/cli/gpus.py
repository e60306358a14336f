"""Rows of `gpu-top` for tests."""

from typing import Any

from gpuyard.cli.gpu_top_rows import Row
from gpuyard.contracts.hardware import Health

GIB = 2**30


def a_row(node: str = "n1", index: int = 0, **fields: Any) -> Row:
    """A silent-free, idle GPU of which everything is known, but for `fields`."""
    known: dict[str, Any] = {
        "uuid": f"GPU-{node}-{index}",
        "model": "NVIDIA H100 80GB HBM3",
        "utilisation": 0.5,
        "memory_used_bytes": 20 * GIB,
        "memory_bytes": 80 * GIB,
        "power_w": 350.0,
        "power_limit_w": 700.0,
        "temperature_c": 60.0,
        "job": None,
        "job_name": None,
        "owner": None,
        "health": Health.OK,
        "health_reason": "",
        "heard": True,
        "free": True,
    }
    return Row(node, index, **{**known, **fields})


def unknown_row(node: str = "n1", index: int = 0, **fields: Any) -> Row:
    """A GPU of a silent node."""
    nothing: dict[str, Any] = dict.fromkeys(
        ("utilisation", "memory_used_bytes", "memory_bytes", "power_w", "power_limit_w", "temperature_c")
    )
    return a_row(node, index, **{**nothing, "heard": False, "free": False, "model": "", **fields})
