"""GPU models and what their data sheets say: memory, NVLink and PCIe generation, power.

Used where the hardware itself can't be asked: for captured topologies (which name a model at best), and
for the bandwidth of links, which drivers do not report. A model that is not listed has unknown
properties.
"""

import re
from dataclasses import dataclass
from enum import Enum

GIB = 1024**3


class NvLink(Enum):
    """Generations of NVLink that differ in speed."""

    V1 = "1"
    V2 = "2"
    V3 = "3"
    V3_BRIDGE = "3, on boards with the GA10x chip"
    V4 = "4"
    V5 = "5"


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A product. `pattern` finds it in free text and in names that the driver reports."""

    pattern: str
    name: str = ""
    memory_bytes: int | None = None
    nvlink: NvLink | None = None
    pcie: int | None = None
    idle_w: float = 25.0
    most_w: float = 250.0


UNKNOWN = GpuModel("")

# First match wins: special products stand before the family that they belong to.
MODELS = (
    GpuModel(r"GB200", "NVIDIA GB200", 186 * GIB, NvLink.V5, 5, 150, 1200),
    GpuModel(r"B200", "NVIDIA B200", 180 * GIB, NvLink.V5, 5, 140, 1000),
    GpuModel(r"GB10", "NVIDIA GB10", None, None, 5, 10, 140),
    GpuModel(r"H200", "NVIDIA H200", 141 * GIB, NvLink.V4, 5, 75, 700),
    GpuModel(r"H[18]00", "NVIDIA H100 80GB HBM3", 80 * GIB, NvLink.V4, 5, 70, 700),
    GpuModel(r"A800", "NVIDIA A800-SXM4-80GB", 80 * GIB, NvLink.V3, 4, 60, 400),
    GpuModel(r"A100.*80 ?GB", "NVIDIA A100-SXM4-80GB", 80 * GIB, NvLink.V3, 4, 60, 400),
    GpuModel(r"A100[- ]PCIE", "NVIDIA A100-PCIE-40GB", 40 * GIB, NvLink.V3, 4, 40, 250),
    GpuModel(r"A100", "NVIDIA A100-SXM4-40GB", 40 * GIB, NvLink.V3, 4, 55, 400),
    GpuModel(r"V100.*32 ?GB|NDV2|DGX-?2", "Tesla V100-SXM2-32GB", 32 * GIB, NvLink.V2, 3, 40, 300),
    GpuModel(r"V100", "Tesla V100-SXM2-16GB", 16 * GIB, NvLink.V2, 3, 40, 300),
    GpuModel(r"TITAN V\b|TITANV", "NVIDIA TITAN V", 12 * GIB, None, 3, 25, 250),
    GpuModel(r"P100", "Tesla P100-SXM2-16GB", 16 * GIB, NvLink.V1, 3, 30, 300),
    GpuModel(r"\bP40\b", "Tesla P40", 24 * GIB, None, 3, 10, 250),
    GpuModel(r"\bK80\b", "Tesla K80", 12 * GIB, None, 3, 25, 150),
    GpuModel(r"L40S", "NVIDIA L40S", 48 * GIB, None, 4, 35, 350),
    GpuModel(r"\bL4\b", "NVIDIA L4", 24 * GIB, None, 4, 12, 72),
    GpuModel(r"\bT4\b", "Tesla T4", 16 * GIB, None, 3, 10, 70),
    GpuModel(r"\bA10\b", "NVIDIA A10", 24 * GIB, None, 4, 16, 150),
    GpuModel(r"RTX ?PRO ?6000", "NVIDIA RTX PRO 6000 Blackwell", 96 * GIB, None, 5, 30, 600),
    GpuModel(r"\bA6000", "NVIDIA RTX A6000", 48 * GIB, NvLink.V3_BRIDGE, 4, 22, 300),
    GpuModel(r"\bA40\b", "NVIDIA A40", 48 * GIB, NvLink.V3_BRIDGE, 4, 25, 300),
    GpuModel(r"RTX ?5090", "NVIDIA GeForce RTX 5090", 32 * GIB, None, 5, 20, 575),
    GpuModel(r"\b(RTX ?)?4090\b", "NVIDIA GeForce RTX 4090", 24 * GIB, None, 4, 20, 450),
    GpuModel(r"RTX ?3090", "NVIDIA GeForce RTX 3090", 24 * GIB, NvLink.V3_BRIDGE, 4, 20, 350),
)


def model_in(*texts: str) -> GpuModel:
    """The first model that one of the texts names, texts in order; `UNKNOWN` if none does."""
    for text in texts:
        for model in MODELS:
            if re.search(model.pattern, text, re.IGNORECASE):
                return model
    return UNKNOWN
