import pytest

from gpuyard.topology.gpu_models import MODELS, UNKNOWN, GpuModel, NvLink, model_in

# Names as drivers report them: the model, its NVLinks, and whether those are bridges that may be missing.
REPORTED = {
    "NVIDIA GB300": ("NVIDIA B300", 18, False),
    "NVIDIA GB200": ("NVIDIA GB200", 18, False),
    "NVIDIA B200": ("NVIDIA B200", 18, False),
    "NVIDIA B300 SXM6 AC": ("NVIDIA B300", 18, False),
    "NVIDIA GB10": ("NVIDIA GB10", None, False),
    "NVIDIA GH200 480GB": ("NVIDIA GH200 480GB", 18, False),
    "NVIDIA GH200 120GB": ("NVIDIA GH200 480GB", 18, False),
    "NVIDIA GH200 144G HBM3e": ("NVIDIA GH200 144G HBM3e", 18, False),
    "NVIDIA H200": ("NVIDIA H200", 18, False),
    "NVIDIA H200 NVL": ("NVIDIA H200 NVL", 18, True),
    "NVIDIA H100 80GB HBM3": ("NVIDIA H100 80GB HBM3", 18, False),
    "NVIDIA H100 80GB HBM2e": ("NVIDIA H100 PCIe", 12, True),
    "NVIDIA H100 PCIe": ("NVIDIA H100 PCIe", 12, True),
    "NVIDIA H100 NVL": ("NVIDIA H100 NVL", 12, True),
    "NVIDIA H800": ("NVIDIA H800", 8, False),
    "NVIDIA H800 PCIe": ("NVIDIA H800 PCIe", 8, True),
    "NVIDIA H800 NVL": ("NVIDIA H800 PCIe", 8, True),
    "NVIDIA H20": ("NVIDIA H20", 18, False),
    "NVIDIA H20-3e": ("NVIDIA H20-3e", 18, False),
    "NVIDIA A100-SXM4-80GB": ("NVIDIA A100-SXM4-80GB", 12, False),
    "NVIDIA A100-SXM4-40GB": ("NVIDIA A100-SXM4-40GB", 12, False),
    "NVIDIA A100-SXM-64GB": ("NVIDIA A100-SXM-64GB", 12, False),
    "A100-SXM4-40GB": ("NVIDIA A100-SXM4-40GB", 12, False),
    "NVIDIA A100 80GB PCIe": ("NVIDIA A100 80GB PCIe", 12, True),
    "NVIDIA A100-PCIE-80GB": ("NVIDIA A100 80GB PCIe", 12, True),
    "NVIDIA A100-PCIE-40GB": ("NVIDIA A100-PCIE-40GB", 12, True),
    "NVIDIA A100X": ("NVIDIA A100X", 12, True),
    "NVIDIA A800-SXM4-80GB": ("NVIDIA A800-SXM4-80GB", 8, False),
    "NVIDIA A800 80GB PCIe": ("NVIDIA A800 80GB PCIe", 8, True),
    "NVIDIA A800-PCIE-40GB": ("NVIDIA A800-PCIE-40GB", 8, True),
    "NVIDIA A800 40GB Active": ("NVIDIA A800 40GB Active", 8, True),
    "NVIDIA A30": ("NVIDIA A30", 4, True),
    "NVIDIA A30X": ("NVIDIA A30", 4, True),
    "NVIDIA A40": ("NVIDIA A40", 4, True),
    "NVIDIA A40-48Q": ("NVIDIA A40", 4, True),
    "NVIDIA A10": ("NVIDIA A10", None, False),
    "NVIDIA A10G": ("NVIDIA A10", None, False),
    "NVIDIA A16": ("NVIDIA A16", None, False),
    "NVIDIA A2": ("NVIDIA A2", None, False),
    "NVIDIA RTX A6000": ("NVIDIA RTX A6000", 4, True),
    "NVIDIA RTX A5500": ("NVIDIA RTX A5000", 4, True),
    "NVIDIA RTX A5000": ("NVIDIA RTX A5000", 4, True),
    "NVIDIA RTX A4500": ("NVIDIA RTX A4500", 4, True),
    "NVIDIA RTX A4000": ("NVIDIA RTX A4000", None, False),
    "NVIDIA RTX A1000": ("", None, False),
    "NVIDIA RTX A1000 Laptop GPU": ("", None, False),
    "NVIDIA RTX A2000 12GB": ("", None, False),
    "Tesla V100-SXM2-32GB": ("Tesla V100-SXM2-32GB", 6, False),
    "Tesla V100-SXM2-16GB": ("Tesla V100-SXM2-16GB", 6, False),
    "Tesla V100-SXM3-32GB": ("Tesla V100-SXM2-32GB", 6, False),
    "Tesla V100-DGXS-32GB": ("Tesla V100-SXM2-32GB", 6, False),
    "Tesla V100-PCIE-16GB": ("Tesla V100-PCIE-16GB", None, False),
    "Tesla V100-PCIE-32GB": ("Tesla V100-PCIE-32GB", None, False),
    "Tesla V100S-PCIE-32GB": ("Tesla V100S-PCIE-32GB", None, False),
    "Tesla V100-FHHL-16GB": ("Tesla V100-FHHL-16GB", None, False),
    "Quadro GV100": ("Quadro GV100", 4, True),
    "NVIDIA TITAN V": ("NVIDIA TITAN V", None, False),
    "TITAN V CEO Edition": ("NVIDIA TITAN V", None, False),
    "Tesla P100-SXM2-16GB": ("Tesla P100-SXM2-16GB", 4, False),
    "Tesla P100-PCIE-16GB": ("Tesla P100-PCIE-16GB", None, False),
    "Tesla P100-PCIE-12GB": ("Tesla P100-PCIE-12GB", None, False),
    "Quadro GP100": ("Quadro GP100", 4, True),
    "Quadro P1000": ("", None, False),
    "Quadro P4000": ("", None, False),
    "Quadro P400": ("", None, False),
    "Quadro M6000": ("", None, False),
    "Tesla P40": ("Tesla P40", None, False),
    "Tesla P4": ("Tesla P4", None, False),
    "Tesla K80": ("Tesla K80", None, False),
    "NVIDIA GeForce GTX 1080 Ti": ("NVIDIA GeForce GTX 1080 Ti", None, False),
    "Tesla T4": ("Tesla T4", None, False),
    "NVIDIA T4G": ("Tesla T4", None, False),
    "NVIDIA T400": ("", None, False),
    "NVIDIA T1000 8GB": ("", None, False),
    "Quadro RTX 8000": ("Quadro RTX 8000", 2, True),
    "Quadro RTX 6000": ("Quadro RTX 6000", 2, True),
    "Quadro RTX 5000": ("Quadro RTX 5000", 1, True),
    "Quadro RTX 4000": ("", None, False),
    "TITAN RTX": ("NVIDIA TITAN RTX", 2, True),
    "NVIDIA TITAN RTX": ("NVIDIA TITAN RTX", 2, True),
    "NVIDIA GeForce RTX 2080 Ti": ("NVIDIA GeForce RTX 2080 Ti", 2, True),
    "GeForce RTX 2080": ("NVIDIA GeForce RTX 2080", 1, True),
    "NVIDIA GeForce RTX 2080 SUPER": ("NVIDIA GeForce RTX 2080", 1, True),
    "NVIDIA GeForce RTX 2070 SUPER": ("NVIDIA GeForce RTX 2080", 1, True),
    "NVIDIA GeForce RTX 2070": ("NVIDIA GeForce RTX 20 series", None, False),
    "NVIDIA GeForce RTX 2060": ("NVIDIA GeForce RTX 20 series", None, False),
    "NVIDIA L40S": ("NVIDIA L40S", None, False),
    "NVIDIA L40": ("NVIDIA L40", None, False),
    "NVIDIA L40G": ("NVIDIA L40", None, False),
    "NVIDIA L20": ("NVIDIA L20", None, False),
    "NVIDIA L4": ("NVIDIA L4", None, False),
    "NVIDIA RTX 6000 Ada Generation": ("NVIDIA RTX 6000 Ada Generation", None, False),
    "NVIDIA RTX 5880 Ada Generation": ("NVIDIA RTX 5880 Ada Generation", None, False),
    "NVIDIA RTX 5000 Ada Generation": ("NVIDIA RTX 5000 Ada Generation", None, False),
    "NVIDIA RTX 4000 SFF Ada Generation": ("", None, False),
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": ("NVIDIA RTX PRO 6000 Blackwell", None, False),
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": ("NVIDIA RTX PRO 6000 Blackwell", None, False),
    "NVIDIA GeForce RTX 5090": ("NVIDIA GeForce RTX 5090", None, False),
    "NVIDIA GeForce RTX 5090 D": ("NVIDIA GeForce RTX 5090", None, False),
    "NVIDIA GeForce RTX 5070 Ti": ("NVIDIA GeForce RTX 50 series", None, False),
    "NVIDIA GeForce RTX 4090": ("NVIDIA GeForce RTX 4090", None, False),
    "NVIDIA GeForce RTX 4070 Ti": ("NVIDIA GeForce RTX 30 or 40 series", None, False),
    "NVIDIA GeForce RTX 3090": ("NVIDIA GeForce RTX 3090", 4, True),
    "NVIDIA GeForce RTX 3090 Ti": ("NVIDIA GeForce RTX 3090", 4, True),
    "NVIDIA GeForce RTX 3080": ("NVIDIA GeForce RTX 30 or 40 series", None, False),
}


@pytest.mark.parametrize("reported", REPORTED)
def test_names_that_drivers_report_find_their_model(reported: str) -> None:
    model = model_in(reported)
    assert (model.name, model.nvlinks, model.bridged) == REPORTED[reported]


@pytest.mark.parametrize("text", ["8xA100", "4x A100, DGX Station", "hpc-a100-node", "8 x a100"])
def test_free_text_names_a_model_too(text: str) -> None:
    assert model_in(text).name == "NVIDIA A100-SXM4-40GB"


@pytest.mark.parametrize(
    "text", ["", "a2-megagpu-16g", "gpuA1000", "NVIDIA RTX 4000 SFF", "public GitHub file"]
)
def test_other_names_find_none(text: str) -> None:
    assert model_in(text) is UNKNOWN


def test_the_first_text_that_names_a_model_counts() -> None:
    assert model_in("some box", "8x H100", "8x A100").name == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.pattern)
def test_every_name_finds_itself(model: GpuModel) -> None:
    assert model_in(model.name).name == model.name


def test_nvlinks_of_one_gpu() -> None:
    assert [model_in(name).nvlinks for name in ("P100", "V100", "A100", "A800", "H100", "L4")] == [
        4,
        6,
        12,
        8,
        18,
        None,
    ]
    assert model_in("RTX 3090").nvlink is NvLink.V3_BRIDGE
    assert model_in("A100-PCIE").bridged
    assert not model_in("A100-SXM4").bridged
