import pytest

from gpuyard.topology.gpu_models import MODELS, UNKNOWN, GpuModel, NvLink, model_in


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("NVIDIA H200 NVL", "NVIDIA H200 NVL"),
        ("NVIDIA GH200 480GB", "NVIDIA GH200 480GB"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 80GB PCIe"),
        ("NVIDIA A100-PCIE-40GB", "NVIDIA A100-PCIE-40GB"),
        ("Tesla V100-SXM2-32GB", "Tesla V100-SXM2-32GB"),
        ("Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB"),
        ("NVIDIA GB200", "NVIDIA GB200"),
        ("NVIDIA B200", "NVIDIA B200"),
        ("NVIDIA RTX A6000", "NVIDIA RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "NVIDIA RTX 6000 Ada Generation"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "NVIDIA RTX PRO 6000 Blackwell"),
        ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 4070 Ti", "NVIDIA GeForce RTX 30 or 40 series"),
        ("NVIDIA L4", "NVIDIA L4"),
        ("Tesla T4", "Tesla T4"),
    ],
)
def test_names_that_drivers_report_find_their_model(reported: str, name: str) -> None:
    assert model_in(reported).name == name


@pytest.mark.parametrize("text", ["", "NVIDIA RTX 4000 SFF", "Quadro M6000", "public GitHub file"])
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
