"""GB/s one way of a link, by its type: what a copy reaches where nobody has measured yet.

The figures are typical of published peer-to-peer tests, so that a table value and a probe can be
compared; data sheets promise 5 to 20 % more. NVLink: per link, times the number of links. PCIe: a slot
of 16 lanes, by how far the copy goes. Where the far levels of a generation were never measured, the
ratios of generation 4 are used.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from gpuyard.contracts.hardware import Level, Link
from gpuyard.topology.gpu_models import GpuModel, NvLink

# Measured: two links of P100 35.3; one to three of V100 24.2, 48.3, 68.9; twelve of A100 274; four of
# RTX A6000 52; eighteen of H100 376; eighteen of GB200 747.
NVLINK_GB_S = {
    NvLink.V1: 17.6,
    NvLink.V2: 24.1,
    NvLink.V3: 22.8,
    NvLink.V3_BRIDGE: 13.0,
    NvLink.V4: 20.9,
    NvLink.V5: 41.5,
}

# Measured: K80 and V100 (3), RTX 4090 (4), RTX PRO 6000 (5, NODE).
PCIE_GB_S = {
    3: {
        Level.SAME_BOARD: 12.0,
        Level.SINGLE_SWITCH: 11.5,
        Level.MULTI_SWITCH: 11.0,
        Level.HOST_BRIDGE: 10.5,
        Level.SAME_NODE: 9.6,
        Level.SYSTEM: 9.0,
    },
    4: {
        Level.SAME_BOARD: 26.5,
        Level.SINGLE_SWITCH: 26.3,
        Level.MULTI_SWITCH: 26.0,
        Level.HOST_BRIDGE: 25.8,
        Level.SAME_NODE: 25.5,
        Level.SYSTEM: 21.5,
    },
    5: {
        Level.SAME_BOARD: 58.5,
        Level.SINGLE_SWITCH: 58.0,
        Level.MULTI_SWITCH: 57.5,
        Level.HOST_BRIDGE: 57.0,
        Level.SAME_NODE: 56.5,
        Level.SYSTEM: 47.5,
    },
}


def link_gb_s(link: Link, model: GpuModel) -> float | None:
    """Bandwidth one way; None where the model's generation is unknown. NVLink counts before PCIe."""
    if link.nvlinks:
        per_link = NVLINK_GB_S.get(model.nvlink) if model.nvlink else None
        return None if per_link is None else round(link.nvlinks * per_link, 1)
    if link.level is None or model.pcie is None:
        return None
    return PCIE_GB_S.get(model.pcie, {}).get(link.level)


def with_gb_s(links: Iterable[Link], model: GpuModel) -> tuple[Link, ...]:
    """The same links with their bandwidths from the table."""
    return tuple(replace(link, gb_s=link_gb_s(link, model)) for link in links)
