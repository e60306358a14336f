from itertools import combinations

import pytest
from msgspec.structs import replace

from gpuyard.contracts.hardware import Basis, Level, Link, Nic
from gpuyard.topology import captures
from gpuyard.topology.captured import captured_inventory
from gpuyard.topology.link_speed import overlaid
from gpuyard.topology.matrix_text import Affinity
from gpuyard.topology.shape import Shape, shape_of, shape_of_parts
from tests.unit.topology.boxes import captured_shape


def measured(*gb_s: float, size: int = 3) -> Shape:
    pairs = combinations(range(size), 2)
    links = [
        Link(a, b, nvlinks=2, gb_s=rate, basis=Basis.MEASURED)
        for (a, b), rate in zip(pairs, gb_s, strict=True)
    ]
    return shape_of_parts([Affinity()] * size, links)


def sided(*sides: Affinity) -> list[int | None]:
    return list(shape_of_parts(sides, ()).sides)


def test_nodes_of_one_model_have_one_shape() -> None:
    inventory = captured_inventory(captures.load("azure-ndv2-v100-8gpu"))
    renamed = [replace(gpu, uuid=f"GPU-other-{gpu.index}") for gpu in inventory.gpus]
    other = replace(inventory, node="other", at_s=9.0, gpus=tuple(renamed))
    assert shape_of(inventory) is shape_of(other)


def test_what_matters_to_a_choice_makes_another_shape() -> None:
    inventory = captured_inventory(captures.load("azure-ndv2-v100-8gpu"))
    slower = (replace(inventory.links[0], gb_s=1.0), *inventory.links[1:])
    moved = (replace(inventory.gpus[0], numa=1), *inventory.gpus[1:])
    shapes = {shape_of(inventory), shape_of(replace(inventory, links=slower))}
    shapes.add(shape_of(replace(inventory, gpus=moved)))
    assert len(shapes) == 3


def test_a_pair_without_link_or_figure_counts_as_0() -> None:
    shape = shape_of_parts([Affinity()] * 3, [Link(0, 1, Level.SINGLE_SWITCH), Link(0, 2, gb_s=5.0)])
    assert [list(row) for row in shape.gb_s] == [[0, 0, 5], [0, 0, 0], [5, 0, 0]]
    assert [shape.label(0, 1), shape.label(0, 2), shape.label(1, 2)] == ["PIX", "?", "?"]
    assert shape.closeness(0, 1) > shape.closeness(1, 2)


def test_sides_are_numa_nodes_if_all_are_known() -> None:
    assert sided(Affinity("0-7", 5), Affinity("0-7", 2), Affinity("8-15", 5)) == [0, 1, 0]


def test_sides_are_near_cpus_otherwise() -> None:
    assert sided(Affinity("8-15", 0), Affinity("0-7"), Affinity("8-15"), Affinity()) == [0, 1, 0, None]


def test_a_pair_is_ranked_by_the_closest_nic_that_both_are_near() -> None:
    nic = Nic("mlx5_0", (Level.SINGLE_SWITCH, Level.SYSTEM, Level.SINGLE_SWITCH))
    other = Nic("mlx5_1", (None, Level.SAME_NODE))
    shape = shape_of_parts([Affinity()] * 3, (), [nic, other])
    assert shape.nics[0][2] > shape.nics[0][1] == shape.nics[1][2] > 0
    assert shape_of_parts([Affinity()] * 3, ()).nics[0][1] == 0


def test_noise_tells_no_measured_links_apart() -> None:
    assert measured(48.4, 47.9, 48.1) is measured(48.1, 48.1, 48.1)


def test_a_degraded_link_stays_slower() -> None:
    shape = measured(48.4, 38.3, 48.1)
    assert (shape.gb_s[0][1], shape.gb_s[0][2], shape.gb_s[1][2]) == (48.1, 38.3, 48.1)


def test_slow_and_fast_links_are_told_apart_at_the_gap() -> None:
    shape = measured(90.0, 98.0, 99.5, 100.0, 120.0, 121.0, size=4)
    rates = sorted({rate for row in shape.gb_s for rate in row if rate})
    assert rates == [98.0, 120.0]


def test_half_a_probe_prefers_neither_half() -> None:
    links = captured_inventory(captures.load("azure-ndv2-v100-8gpu")).links
    half = {(link.a, link.b): (link.gb_s or 0.0) * 0.99 for link in links if link.b < 4}
    shape = shape_of_parts([Affinity()] * 8, overlaid(links, half))
    for link in links:
        if link.nvlinks:
            assert shape.gb_s[link.a][link.b] == pytest.approx((link.gb_s or 0.0) * 0.99)


def test_a_link_that_was_measured_to_carry_nothing_carries_nothing() -> None:
    shape = measured(48.4, 0.0, 48.1)
    assert (shape.gb_s[0][1], shape.gb_s[0][2], shape.gb_s[1][2]) == (48.1, 0.0, 48.1)


def test_figures_of_a_table_stay_as_they_are() -> None:
    shape = captured_shape("titanv-8gpu-pix-phb-sys")
    assert len({rate for row in shape.gb_s for rate in row}) == 4
