"""GPU models and what their data sheets say: memory, NVLink and PCIe generation, peer copies, power.

Used where the hardware itself can't be asked: for captured topologies (which name a model at best), and
for the bandwidth of links, which drivers do not report. A model that is not listed has unknown
properties.
"""

import re
from dataclasses import dataclass
from enum import Enum

GIB = 1024**3
_BEGINS = r"(\b|(?<=\dx))"
"""A name stands alone, or behind a number of GPUs: `8xA100`."""


class NvLink(Enum):
    """Generations of NVLink that differ in speed."""

    V1 = "1"
    V2 = "2"
    V3 = "3"
    V3_BRIDGE = "3, on boards with the GA10x chip"
    V4 = "4"
    V5 = "5"


class Peer(Enum):
    """The links over which GPUs of a model copy to each other without going through host memory."""

    ANY = "NVLink, and PCIe at any level"
    SOCKET = "NVLink, and PCIe inside a socket, but not beside the NVLinks of a cube mesh"
    NVLINK = "NVLink alone"


_NVLINKS = {NvLink.V1: 4, NvLink.V2: 6, NvLink.V3: 12, NvLink.V3_BRIDGE: 4, NvLink.V4: 18, NvLink.V5: 18}


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A product. `pattern` finds it, as whole words, in free text and in names that the driver reports."""

    pattern: str
    name: str = ""
    memory_bytes: int | None = None
    nvlink: NvLink | None = None
    pcie: int | None = None
    peer: Peer | None = None
    idle_w: float = 25.0
    most_w: float = 250.0
    fewer_nvlinks: int | None = None
    """NVLinks of one GPU, where the product has fewer than its generation."""
    bridged: bool = False
    """Its NVLinks are bridges that a machine may lack; otherwise they are soldered and must all be up."""
    socket_gb_s: float | None = None
    """GB/s between sockets, on machines whose CPUs have NVLinks of their own."""

    @property
    def nvlinks(self) -> int | None:
        """NVLinks that one GPU can have; None for a model without any, or an unknown one."""
        return self.fewer_nvlinks or (_NVLINKS[self.nvlink] if self.nvlink else None)


UNKNOWN = GpuModel("")

_V1, _V2, _V3, _V4, _V5, _GA = NvLink.V1, NvLink.V2, NvLink.V3, NvLink.V4, NvLink.V5, NvLink.V3_BRIDGE
_ANY, _SOCKET, _NVLINK = Peer.ANY, Peer.SOCKET, Peer.NVLINK

# First match wins: special products stand before the family that they belong to. Letters after a name
# make another product (A100X, V100S), so patterns match whole words.
MODELS = (
    # Blackwell and Hopper
    GpuModel(r"G?B300", "NVIDIA B300", 288 * GIB, _V5, 5, _ANY, 150, 1400),
    GpuModel(r"GB200", "NVIDIA GB200", 186 * GIB, _V5, 5, _ANY, 150, 1200),
    GpuModel(r"B200", "NVIDIA B200", 180 * GIB, _V5, 5, _ANY, 140, 1000),
    GpuModel(r"GB10", "NVIDIA GB10", None, None, 5, _NVLINK, 10, 140),
    GpuModel(r"GH200.*144 ?GB?", "NVIDIA GH200 144G HBM3e", 144 * GIB, _V4, 5, _ANY, 90, 900),
    GpuModel(r"GH200", "NVIDIA GH200 480GB", 96 * GIB, _V4, 5, _ANY, 90, 900),
    GpuModel(r"H200[- ]NVL", "NVIDIA H200 NVL", 141 * GIB, _V4, 5, _ANY, 70, 600, bridged=True),
    GpuModel(r"H200", "NVIDIA H200", 141 * GIB, _V4, 5, _ANY, 75, 700),
    GpuModel(r"H800[- ](PCIE|NVL)", "NVIDIA H800 PCIe", 80 * GIB, _V4, 5, _ANY, 50, 350, 8, bridged=True),
    GpuModel(r"H800", "NVIDIA H800", 80 * GIB, _V4, 5, _ANY, 70, 700, fewer_nvlinks=8),
    GpuModel(r"H100[- ]NVL", "NVIDIA H100 NVL", 94 * GIB, _V4, 5, _ANY, 60, 400, 12, bridged=True),
    GpuModel(
        r"H100[- ](PCIE|80GB HBM2E)", "NVIDIA H100 PCIe", 80 * GIB, _V4, 5, _ANY, 50, 350, 12, bridged=True
    ),
    GpuModel(r"H100", "NVIDIA H100 80GB HBM3", 80 * GIB, _V4, 5, _ANY, 70, 700),
    GpuModel(r"H20-3E", "NVIDIA H20-3e", 141 * GIB, _V4, 5, _ANY, 70, 500),
    GpuModel(r"H20", "NVIDIA H20", 96 * GIB, _V4, 5, _ANY, 70, 500),
    # Ampere
    GpuModel(r"A800.*80 ?GB PCIE", "NVIDIA A800 80GB PCIe", 80 * GIB, _V3, 4, _ANY, 45, 300, 8, bridged=True),
    GpuModel(r"A800[- ]PCIE", "NVIDIA A800-PCIE-40GB", 40 * GIB, _V3, 4, _ANY, 40, 250, 8, bridged=True),
    GpuModel(r"A800.*ACTIVE", "NVIDIA A800 40GB Active", 40 * GIB, _V3, 4, _ANY, 40, 240, 8, bridged=True),
    GpuModel(r"A800", "NVIDIA A800-SXM4-80GB", 80 * GIB, _V3, 4, _ANY, 60, 400, fewer_nvlinks=8),
    GpuModel(r"A100X", "NVIDIA A100X", 80 * GIB, _V3, 4, _ANY, 50, 300, bridged=True),
    GpuModel(
        r"A100.*80 ?GB PCIE|A100[- ]PCIE.*80 ?GB",
        "NVIDIA A100 80GB PCIe",
        80 * GIB,
        _V3,
        4,
        _ANY,
        45,
        300,
        bridged=True,
    ),
    GpuModel(r"A100.*80 ?GB", "NVIDIA A100-SXM4-80GB", 80 * GIB, _V3, 4, _ANY, 60, 400),
    GpuModel(r"A100[- ]PCIE", "NVIDIA A100-PCIE-40GB", 40 * GIB, _V3, 4, _ANY, 40, 250, bridged=True),
    GpuModel(r"A100[- ]SXM4?[- ]64 ?GB", "NVIDIA A100-SXM-64GB", 64 * GIB, _V3, 4, _ANY, 55, 400),
    GpuModel(r"A100", "NVIDIA A100-SXM4-40GB", 40 * GIB, _V3, 4, _ANY, 55, 400),
    GpuModel(r"A30X?", "NVIDIA A30", 24 * GIB, _V3, 4, _ANY, 28, 165, 4, bridged=True),
    GpuModel(r"A40", "NVIDIA A40", 48 * GIB, _GA, 4, _ANY, 25, 300, bridged=True),
    GpuModel(r"A10[GM]?", "NVIDIA A10", 24 * GIB, None, 4, _ANY, 16, 150),
    GpuModel(r"NVIDIA A16", "NVIDIA A16", 16 * GIB, None, 4, _ANY, 15, 62),
    # Eight lanes of PCIe 4 carry what sixteen of PCIe 3 do.
    GpuModel(r"NVIDIA A2", "NVIDIA A2", 16 * GIB, None, 3, _ANY, 5, 60),
    GpuModel(r"A6000", "NVIDIA RTX A6000", 48 * GIB, _GA, 4, _ANY, 22, 300, bridged=True),
    GpuModel(r"RTX A5[05]00", "NVIDIA RTX A5000", 24 * GIB, _GA, 4, _ANY, 20, 230, bridged=True),
    GpuModel(r"RTX A4500", "NVIDIA RTX A4500", 20 * GIB, _GA, 4, _ANY, 18, 200, bridged=True),
    GpuModel(r"RTX A4000", "NVIDIA RTX A4000", 16 * GIB, None, 4, _ANY, 10, 140),
    # Volta
    GpuModel(
        r"(AC922|POWER9).*V100", "Tesla V100-SXM2-16GB", 16 * GIB, _V2, 3, _ANY, 40, 300, socket_gb_s=28.9
    ),
    GpuModel(r"V100S", "Tesla V100S-PCIE-32GB", 32 * GIB, None, 3, _SOCKET, 25, 250),
    GpuModel(r"V100[- ]PCIE.*32 ?GB", "Tesla V100-PCIE-32GB", 32 * GIB, None, 3, _SOCKET, 30, 250),
    GpuModel(r"V100[- ]PCIE", "Tesla V100-PCIE-16GB", 16 * GIB, None, 3, _SOCKET, 30, 250),
    GpuModel(r"V100[- ]FHHL", "Tesla V100-FHHL-16GB", 16 * GIB, None, 3, _SOCKET, 25, 150),
    GpuModel(r"V100.*32 ?GB|NDV2|DGX-?2", "Tesla V100-SXM2-32GB", 32 * GIB, _V2, 3, _SOCKET, 40, 300),
    GpuModel(r"V100", "Tesla V100-SXM2-16GB", 16 * GIB, _V2, 3, _SOCKET, 40, 300),
    GpuModel(r"GV100", "Quadro GV100", 32 * GIB, _V2, 3, _SOCKET, 25, 250, 4, bridged=True),
    GpuModel(r"TITAN ?V", "NVIDIA TITAN V", 12 * GIB, None, 3, _SOCKET, 25, 250),
    # Pascal and Kepler
    GpuModel(r"P100[- ]PCIE.*12 ?GB", "Tesla P100-PCIE-12GB", 12 * GIB, None, 3, _SOCKET, 25, 250),
    GpuModel(r"P100[- ]PCIE", "Tesla P100-PCIE-16GB", 16 * GIB, None, 3, _SOCKET, 25, 250),
    GpuModel(r"POWER8.*P100", "Tesla P100-SXM2-16GB", 16 * GIB, _V1, 3, _SOCKET, 30, 300, socket_gb_s=22.5),
    GpuModel(r"P100", "Tesla P100-SXM2-16GB", 16 * GIB, _V1, 3, _SOCKET, 30, 300),
    GpuModel(r"GP100", "Quadro GP100", 16 * GIB, _V1, 3, _SOCKET, 25, 235, bridged=True),
    GpuModel(r"P40", "Tesla P40", 24 * GIB, None, 3, _SOCKET, 10, 250),
    GpuModel(r"Tesla P4", "Tesla P4", 8 * GIB, None, 3, _SOCKET, 7, 75),
    GpuModel(r"GTX ?1080 ?TI", "NVIDIA GeForce GTX 1080 Ti", 11 * GIB, None, 3, _SOCKET, 10, 250),
    GpuModel(r"K80", "Tesla K80", 12 * GIB, None, 3, _SOCKET, 25, 150),
    # Ada
    GpuModel(r"L40S", "NVIDIA L40S", 48 * GIB, None, 4, _ANY, 35, 350),
    GpuModel(r"L40G?", "NVIDIA L40", 48 * GIB, None, 4, _ANY, 35, 300),
    GpuModel(r"NVIDIA L20", "NVIDIA L20", 48 * GIB, None, 4, _ANY, 35, 275),
    GpuModel(r"L4", "NVIDIA L4", 24 * GIB, None, 4, _NVLINK, 12, 72),
    GpuModel(r"RTX ?6000 Ada", "NVIDIA RTX 6000 Ada Generation", 48 * GIB, None, 4, _ANY, 25, 300),
    GpuModel(r"RTX ?5880 Ada", "NVIDIA RTX 5880 Ada Generation", 48 * GIB, None, 4, _ANY, 25, 285),
    GpuModel(r"RTX ?5000 Ada", "NVIDIA RTX 5000 Ada Generation", 32 * GIB, None, 4, _ANY, 20, 250),
    # Turing
    GpuModel(r"T4G?", "Tesla T4", 16 * GIB, None, 3, _ANY, 10, 70),
    GpuModel(r"RTX ?8000", "Quadro RTX 8000", 48 * GIB, _V2, 3, _SOCKET, 15, 260, 2, bridged=True),
    GpuModel(r"Quadro RTX ?6000", "Quadro RTX 6000", 24 * GIB, _V2, 3, _SOCKET, 15, 260, 2, bridged=True),
    GpuModel(r"Quadro RTX ?5000", "Quadro RTX 5000", 16 * GIB, _V2, 3, _SOCKET, 12, 230, 1, bridged=True),
    GpuModel(r"TITAN RTX", "NVIDIA TITAN RTX", 24 * GIB, _V2, 3, _NVLINK, 15, 280, 2, bridged=True),
    GpuModel(r"2080 ?TI", "NVIDIA GeForce RTX 2080 Ti", 11 * GIB, _V2, 3, _NVLINK, 15, 250, 2, bridged=True),
    GpuModel(
        r"RTX ?(2080( SUPER)?|2070 SUPER)",
        "NVIDIA GeForce RTX 2080",
        8 * GIB,
        _V2,
        3,
        _NVLINK,
        12,
        215,
        1,
        bridged=True,
    ),
    # Workstations and games
    GpuModel(r"RTX ?PRO ?6000", "NVIDIA RTX PRO 6000 Blackwell", 96 * GIB, None, 5, _ANY, 30, 600),
    GpuModel(r"RTX ?5090", "NVIDIA GeForce RTX 5090", 32 * GIB, None, 5, _NVLINK, 20, 575),
    GpuModel(r"(RTX ?)?4090", "NVIDIA GeForce RTX 4090", 24 * GIB, None, 4, _NVLINK, 20, 450),
    GpuModel(r"RTX ?3090", "NVIDIA GeForce RTX 3090", 24 * GIB, _GA, 4, _NVLINK, 20, 350, bridged=True),
    GpuModel(r"RTX ?50([5-8]0)?", "NVIDIA GeForce RTX 50 series", None, None, 5, _NVLINK, 15, 300),
    GpuModel(r"RTX ?[34]0([5-8]0)?", "NVIDIA GeForce RTX 30 or 40 series", None, None, 4, _NVLINK, 15, 300),
    GpuModel(r"RTX ?20([67]0)?", "NVIDIA GeForce RTX 20 series", None, None, 3, _NVLINK, 12, 200),
)


def model_in(*texts: str) -> GpuModel:
    """The first model that one of the texts names, texts in order; `UNKNOWN` if none does."""
    for text in texts:
        for model in MODELS:
            if re.search(rf"{_BEGINS}({model.pattern})\b", text, re.IGNORECASE):
                return model
    return UNKNOWN
