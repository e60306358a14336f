from gpuyard.contracts.hardware import Level, Link
from gpuyard.topology.bonds import bonds_of, tiers_of
from gpuyard.topology.matrix_text import Affinity
from gpuyard.topology.ring import bits_of
from gpuyard.topology.shape import shape_of_parts
from tests.unit.topology.boxes import box, captured_shape


def tier_names(capture: str) -> list[str]:
    return [tier.name for tier in tiers_of(captured_shape(capture))]


def test_tiers_run_from_nvlink_over_levels_to_sockets() -> None:
    assert tier_names("azure-ndv2-v100-8gpu") == ["NVLink", "NV2"]
    assert tier_names("titanv-8gpu-pix-phb-sys") == ["PIX", "PHB"]
    assert tier_names("rtx4090-8gpu-all-sys") == ["SYS on one socket"]
    assert tier_names("dgx-h100-8gpu-10hca") == ["NV18 on one socket"]
    assert tier_names("a100-pcie-8gpu-bridged-pairs") == ["NVLink", "SYS on one socket"]


def test_pairs_that_all_are_alike_tell_nothing() -> None:
    assert tier_names("b200-8gpu-no-affinity") == []
    assert tier_names("gb10-spark-1gpu-4nic") == []


def test_levels_behind_nvlink_count_where_they_are_known() -> None:
    level = {(0, 1): Level.SINGLE_SWITCH, (2, 3): Level.SINGLE_SWITCH}
    links = [Link(a, b, level.get((a, b), Level.SYSTEM), 18) for a in range(4) for b in range(a + 1, 4)]
    tiers = tiers_of(shape_of_parts([Affinity()] * 4, links))
    assert [tier.name for tier in tiers] == ["NV18 and PIX"]


def test_the_quads_of_a_cube_mesh_are_its_two_halves() -> None:
    nvlink = tiers_of(captured_shape("v100-8gpu-cubemesh-1hca"))[0]
    assert [bits_of(quad) for quad in nvlink.quads] == [(0, 1, 2, 3), (4, 5, 6, 7)]


def test_beyond_sixteen_gpus_quads_are_left_out() -> None:
    shape = box([[9.0] * 18] * 18, [gpu // 9 for gpu in range(18)])
    assert [tier.quads for tier in tiers_of(shape)] == [()]


def test_one_better_bond_outweighs_any_number_of_lesser_ones() -> None:
    shape = captured_shape("titanv-8gpu-pix-phb-sys")
    rates = [[round(rate * 10) for rate in row] for row in shape.gb_s]
    bonds = bonds_of(tiers_of(shape), tuple(map(tuple, rates)))
    pix, phb, across = bonds[0][1], bonds[0][2], bonds[0][4]
    assert pix > 1000 * phb > 1000 * across > 0
