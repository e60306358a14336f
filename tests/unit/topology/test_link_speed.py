import pytest

from gpuyard.contracts.hardware import Level, Link
from gpuyard.topology import captures
from gpuyard.topology.gpu_models import MODELS, UNKNOWN, GpuModel, NvLink, model_in
from gpuyard.topology.link_speed import NVLINK_GB_S, PCIE_GB_S, link_gb_s, with_gb_s

# Means of published p2pBandwidthLatencyTest runs, one way.
MEASURED = [
    ("P100", 2, None, 35.3),
    ("V100", 1, None, 24.2),
    ("V100", 2, None, 48.3),
    ("V100", 3, None, 68.9),
    ("A100", 12, None, 274.0),
    ("H100", 18, None, 376.0),
    ("GB200", 18, None, 747.0),
    ("A6000", 4, None, 52.2),
    ("V100", 0, Level.SAME_NODE, 9.6),
    ("RTX 4090", 0, Level.SAME_NODE, 25.7),
    ("RTX 4090", 0, Level.SYSTEM, 21.5),
    ("RTX PRO 6000", 0, Level.SAME_NODE, 56.5),
]


@pytest.mark.parametrize(("model", "nvlinks", "level", "measured_gb_s"), MEASURED)
def test_the_table_agrees_with_measurements(
    model: str, nvlinks: int, level: Level | None, measured_gb_s: float
) -> None:
    assert link_gb_s(Link(0, 1, level, nvlinks), model_in(model)) == pytest.approx(measured_gb_s, rel=0.06)


@pytest.mark.parametrize("generation", sorted(PCIE_GB_S))
def test_pcie_gets_slower_with_distance(generation: int) -> None:
    rates = [PCIE_GB_S[generation][level] for level in Level]
    assert rates == sorted(rates, reverse=True)
    assert len(set(rates)) == len(rates)


@pytest.mark.parametrize("level", Level)
def test_pcie_gets_faster_with_each_generation(level: Level) -> None:
    rates = [PCIE_GB_S[generation][level] for generation in sorted(PCIE_GB_S)]
    assert rates == sorted(rates)


def test_every_generation_of_a_listed_model_has_a_rate() -> None:
    assert {model.nvlink for model in MODELS if model.nvlink} == set(NVLINK_GB_S) == set(NvLink)
    assert {model.pcie for model in MODELS} == set(PCIE_GB_S)


@pytest.mark.parametrize(
    ("link", "model"),
    [
        (Link(0, 1, Level.SINGLE_SWITCH), UNKNOWN),
        (Link(0, 1, nvlinks=4), UNKNOWN),
        (Link(0, 1, nvlinks=4), GpuModel("", pcie=4)),
        (Link(0, 1), GpuModel("", pcie=4, nvlink=NvLink.V3)),
        (Link(0, 1, Level.SYSTEM), GpuModel("", pcie=9)),
    ],
)
def test_unknown_stays_unknown(link: Link, model: GpuModel) -> None:
    assert link_gb_s(link, model) is None


def test_links_keep_everything_else() -> None:
    links = captures.load("a100-pcie-8gpu-bridged-pairs").topology.links
    rated = with_gb_s(links, model_in("A100"))
    assert [(link.a, link.b, link.label, link.p2p) for link in rated] == [
        (link.a, link.b, link.label, None) for link in links
    ]
    assert {link.gb_s for link in rated if link.nvlinks} == {273.6}
