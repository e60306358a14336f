"""The tree and the matrix as text."""

from pathlib import Path

import pytest
from msgspec import structs

from gpuyard.contracts.hardware import Gpu, Health, Inventory
from gpuyard.topology import captures
from gpuyard.topology.captured import captured_inventory
from gpuyard.topology.text_picture import cluster_text, node_text
from tests.unit.topology.test_tree import EVERY


def inventory_of(capture: str) -> Inventory:
    return captured_inventory(captures.load(capture))


def test_a_node_in_full() -> None:
    assert node_text(inventory_of("l40s-4gpu-pix-node")).split("\n") == [
        "l40s-4gpu-pix-node: 4 x NVIDIA L40S",
        "4x L40S on one socket, PIX pairs, header without leading tab; public GitHub file",
        "",
        "node: NODE 25.5 GB/s",
        "├─ PCIe switch: PIX 26.3 GB/s",
        "│  ├─ GPU 0",
        "│  └─ GPU 1",
        "└─ PCIe switch: PIX 26.3 GB/s",
        "   ├─ GPU 2",
        "   └─ GPU 3",
        "",
        "      GPU0       GPU1       GPU2       GPU3       NUMA  CPUS",
        "GPU0  X          PIX 26.3   NODE 25.5  NODE 25.5  0     0-15,32-47",
        "GPU1  PIX 26.3   X          NODE 25.5  NODE 25.5  0     0-15,32-47",
        "GPU2  NODE 25.5  NODE 25.5  X          PIX 26.3   0     0-15,32-47",
        "GPU3  NODE 25.5  NODE 25.5  PIX 26.3   X          0     0-15,32-47",
        "",
        "PIX: over one PCIe switch",
        "NODE: between host bridges of one NUMA node",
        "GB/s one way, typical of the model",
    ]


@pytest.mark.parametrize("capture", EVERY, ids=lambda name: Path(name).stem)
def test_every_capture_can_be_told(capture: str) -> None:
    inventory = inventory_of(capture)
    lines = node_text(inventory).split("\n")
    for gpu in inventory.gpus:
        assert sum(line.strip("│├└─ ").split("  ")[0] == f"GPU {gpu.index}" for line in lines) == 1


def test_no_p2p_and_nvlink_are_explained() -> None:
    text = node_text(inventory_of("azure-ndv2-v100-8gpu"))
    assert "NODE 10.4*" in text
    assert "* no P2P: copies go through host memory" in text
    assert "NVLink island: NV2 48.2 GB/s, NV1 24.1 GB/s" in text
    assert "through switches" in node_text(inventory_of("h200-8gpu-12nic"))


def test_who_holds_what() -> None:
    inventory = inventory_of("k80-4gpu-node")
    lost = structs.replace(inventory.gpus[3], health=Health.OUT, health_reason="XID 79")
    text = node_text(structs.replace(inventory, gpus=(*inventory.gpus[:3], lost)), {"GPU-1": "digits-1"})
    assert "GPU 0   free" in text
    assert "GPU 1   taken: digits-1" in text
    assert "GPU 3   out of service: XID 79" in text


def test_paint_moves_nothing() -> None:
    inventory = inventory_of("nersc-corigpu-v100-8gpu-9nic")
    painted = node_text(inventory, {}, lambda text, colour: f"<{colour}>{text}</{colour}>")
    assert "<green>NV2 48.2 " in painted
    assert "<cyan>NV1 24.1 " in painted
    bare = painted
    for colour in ("green", "cyan", "dim", "bold", "yellow", "red", "blue"):
        bare = bare.replace(f"<{colour}>", "").replace(f"</{colour}>", "")
    assert [line.rstrip() for line in bare.split("\n")] == node_text(inventory, {}).split("\n")


def test_a_cluster_in_lines() -> None:
    bridged = structs.replace(inventory_of("a100-pcie-8gpu-bridged-pairs"), node="n1", labels={"rack": "r1"})
    plain = Inventory("n2", 1.0, gpus=(Gpu("GPU-x", 0, model="T4"),))
    assert cluster_text([bridged, plain], {"n1": {"GPU-0": "j"}, "n2": {}}).split("\n") == [
        "cluster",
        "├─ rack r1",
        "│  └─ n1: 8 x NVIDIA A100-PCIE-40GB, 7 free, NVLink islands of 2, 2, 2, 2",
        "└─ n2: 1 x T4, 1 free",
    ]


def test_a_node_without_gpus() -> None:
    assert node_text(Inventory("cpu-1", 1.0), {}) == "cpu-1: no GPUs\n\nnode"
