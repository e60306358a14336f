from dataclasses import replace as with_fields
from itertools import combinations

import pytest
from msgspec.structs import replace

from gpuyard.contracts.hardware import Basis, Level, Link
from gpuyard.topology import captures
from gpuyard.topology.gpu_models import MODELS, UNKNOWN, GpuModel, NvLink, Peer, model_in
from gpuyard.topology.link_speed import NVLINK_GB_S, PCIE_GB_S, STAGED_GB_S, described, overlaid

V100, A100, H100 = model_in("V100"), model_in("A100"), model_in("H100")
RTX4090, L40S = model_in("RTX 4090"), model_in("L40S")


def alone(link: Link, model: GpuModel) -> Link:
    return described([link], model)[0]


def full(count: int, nvlinks: int) -> list[Link]:
    return [Link(a, b, nvlinks=nvlinks) for a, b in combinations(range(count), 2)]


def shipped(name: str) -> tuple[Link, ...]:
    capture = captures.load(name)
    return described(capture.topology.links, capture.model)


@pytest.mark.parametrize("generation", sorted(PCIE_GB_S))
def test_pcie_gets_slower_with_distance(generation: int) -> None:
    direct = [PCIE_GB_S[generation][level] for level in Level]
    assert direct == sorted(direct, reverse=True)
    assert len(set(direct)) == len(direct)
    model = GpuModel("", pcie=generation, peer=Peer.NVLINK)
    staged = [alone(Link(0, 1, level), model).gb_s or 0.0 for level in Level]
    assert staged == sorted(staged, reverse=True)


@pytest.mark.parametrize("level", Level)
def test_pcie_gets_faster_with_each_generation(level: Level) -> None:
    rates = [PCIE_GB_S[generation][level] for generation in sorted(PCIE_GB_S)]
    assert rates == sorted(rates)
    assert sorted(STAGED_GB_S.values()) == [STAGED_GB_S[generation] for generation in sorted(STAGED_GB_S)]


def test_every_generation_of_a_listed_model_has_a_rate() -> None:
    assert {model.nvlink for model in MODELS if model.nvlink} <= set(NVLINK_GB_S) == set(NvLink)
    assert {model.pcie for model in MODELS} == set(PCIE_GB_S) == set(STAGED_GB_S)
    assert all(model.peer for model in MODELS)


@pytest.mark.parametrize("model", [*MODELS, UNKNOWN], ids=lambda model: model.name)
@pytest.mark.parametrize("link", [*(Link(0, 1, level) for level in Level), Link(0, 1), Link(0, 1, nvlinks=2)])
def test_every_link_of_every_model_gets_a_figure_and_its_basis(link: Link, model: GpuModel) -> None:
    found = alone(link, model)
    assert found.gb_s
    guessed = model.nvlink is None if link.nvlinks else model.pcie is None or link.level is None
    assert found.basis is (Basis.TYPICAL if guessed else Basis.MODEL)


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("models", [UNKNOWN, V100])
def test_everything_else_stays(count: int, models: GpuModel) -> None:
    links = [Link(a, b, Level.SYSTEM, nvlinks=1) for a, b in combinations(range(count), 2)]
    found = described(links, [models] * count)
    assert [replace(link, p2p=None, switched=False, gb_s=None, basis=None) for link in found] == links
    assert found == described(found, models)


def test_no_links_are_described_as_none() -> None:
    assert described([], H100) == described([], []) == ()


@pytest.mark.parametrize(
    "name", ["aws-p4d-a100-8gpu", "dgx2-v100-16gpu-derived", "dgx-h100-8gpu-10hca", "b200-8gpu-no-affinity"]
)
def test_switches_are_seen_where_a_gpu_shows_more_nvlinks_than_it_has(name: str) -> None:
    assert all(link.switched and link.p2p for link in shipped(name))
    assert all(link.switched for link in described(captures.load(name).topology.links, UNKNOWN))


@pytest.mark.parametrize(
    "name",
    ["h100-4gpu-nv6", "hgx-a100-4gpu-delta", "v100-8gpu-cubemesh-1hca", "a100-pcie-8gpu-bridged-pairs"],
)
def test_direct_nvlinks_are_not_switched(name: str) -> None:
    assert not any(link.switched for link in shipped(name))


def test_a_switch_that_the_driver_saw_stays_and_pcie_is_never_switched() -> None:
    assert alone(Link(0, 1, nvlinks=18, switched=True), H100).switched
    assert not alone(Link(0, 1, Level.SYSTEM, switched=True), H100).switched
    assert not alone(Link(0, 1, nvlinks=18), H100).switched
    assert all(link.switched for link in described(full(3, 18), H100))


def test_products_with_fewer_nvlinks_than_their_generation() -> None:
    assert model_in("H800").nvlinks == model_in("A800").nvlinks == 8
    assert all(link.switched for link in described(full(8, 8), model_in("A800")))
    assert L40S.nvlinks is UNKNOWN.nvlinks is None


@pytest.mark.parametrize(
    ("name", "p2p"),
    [
        ("v100-8gpu-cubemesh-1hca", {"NV1": True, "NV2": True, "SYS": False}),
        ("v100-8gpu-vm-phb", {"NV1": True, "NV2": True, "PHB": False}),
        ("azure-ndv2-v100-8gpu", {"NV1": True, "NV2": True, "NODE": False}),
        ("dgx1-p100-8gpu-collapsed-header", {"NV1": True, "SYS": False}),
        ("power9-ac922-v100-4gpu", {"NV3": True, "SYS": True}),
        ("v100-4gpu-ring-no-diagonal", {"NV1": True, "NV2": True, "SYS": False}),
        ("titanv-8gpu-pix-phb-sys", {"PIX": True, "PHB": True, "SYS": False}),
        ("rtx4090-8gpu-all-sys", {"SYS": False}),
        ("rtx5090-2gpu-phb", {"PHB": False}),
        ("rtx3090-2gpu-nvlink", {"NV4": True}),
        ("rtxpro6000-2gpu-node", {"NODE": True}),
        ("a100-pcie-8gpu-bridged-pairs", {"NV12": True, "SYS": True}),
    ],
)
def test_who_copies_directly(name: str, p2p: dict[str, bool]) -> None:
    assert {link.label: link.p2p for link in shipped(name)} == p2p


def test_a_small_mesh_inside_a_socket_copies_directly_without_nvlink() -> None:
    links = [Link(0, 1, nvlinks=2), Link(0, 2, Level.SAME_NODE), Link(1, 2, nvlinks=2)]
    assert [link.p2p for link in described(links, V100)] == [True, True, True]


def test_the_driver_knows_better_who_copies_directly() -> None:
    assert alone(Link(0, 1, Level.SAME_NODE, p2p=True), RTX4090).gb_s == PCIE_GB_S[4][Level.SAME_NODE]
    assert alone(Link(0, 1, Level.SINGLE_SWITCH, p2p=False), L40S).gb_s == STAGED_GB_S[4]


def test_nvlinks_that_the_driver_does_not_let_copy_go_through_the_host() -> None:
    barred = alone(Link(0, 1, nvlinks=12, p2p=False), A100)
    assert (barred.p2p, barred.basis) == (False, Basis.TYPICAL)
    assert (barred.gb_s or 0.0) <= STAGED_GB_S[4]


def test_of_an_unknown_model_it_is_unknown_and_rates_are_typical() -> None:
    pcie, bonded = alone(Link(0, 1, Level.SYSTEM), UNKNOWN), alone(Link(0, 1, nvlinks=2), UNKNOWN)
    assert (pcie.p2p, bonded.p2p) == (None, True)
    assert (bonded.gb_s or 0) > (pcie.gb_s or 0)


def test_different_models_do_not_copy_directly_and_run_at_the_slower_generation() -> None:
    found = described([Link(0, 1, Level.SINGLE_SWITCH)], [L40S, model_in("RTX PRO 6000")])[0]
    assert (found.p2p, found.gb_s, found.basis) == (False, STAGED_GB_S[4], Basis.MODEL)
    bonded = described([Link(0, 1, nvlinks=12)], [A100, with_fields(A100, memory_bytes=None)])[0]
    assert (bonded.p2p, bonded.gb_s) == (True, 273.6)
    mixed = described([Link(0, 1, Level.SYSTEM), Link(0, 2), Link(1, 2)], [A100, UNKNOWN, UNKNOWN])
    assert [(link.p2p, link.basis) for link in mixed] == [
        (False, Basis.TYPICAL),
        (False, Basis.TYPICAL),
        (None, Basis.TYPICAL),
    ]


def test_an_unreported_level_is_taken_for_the_farthest() -> None:
    assert alone(Link(0, 1), L40S).gb_s == PCIE_GB_S[4][Level.SYSTEM]


def test_measured_figures_lie_over_the_table() -> None:
    links = described(full(3, 2), V100)
    found = overlaid(links, {(0, 1): 38.3, (1, 0): 48.3, (2, 0): 24.2, (7, 8): 1.0})
    assert [(link.gb_s, link.basis) for link in found] == [
        (38.3, Basis.MEASURED),
        (24.2, Basis.MEASURED),
        (48.2, Basis.MODEL),
    ]
    assert [replace(link, gb_s=None, basis=None) for link in found] == [
        replace(link, gb_s=None, basis=None) for link in links
    ]
