"""Pictures: well-formed, alike every time, nothing over anything else, and no text that breaks out."""

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import structs

from gpuyard.contracts.hardware import Gpu, Health, Inventory
from gpuyard.topology import captures
from gpuyard.topology.captured import captured_inventory
from gpuyard.topology.svg_layout import Layout, Place, lay_out
from gpuyard.topology.svg_marks import Rect
from gpuyard.topology.svg_picture import svg_picture
from gpuyard.topology.tree import node_tree
from tests.unit.topology.test_tree import EVERY


def inventory_of(capture: str) -> Inventory:
    return captured_inventory(captures.load(capture))


def layout_of(capture: str) -> Layout:
    inventory = inventory_of(capture)
    return lay_out(inventory, node_tree(inventory), lambda branch: branch.name)


def texts(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def overlap(a: Rect, b: Rect) -> bool:
    return a.x < b.right and b.x < a.right and a.y < b.bottom and b.y < a.bottom


def check_place(place: Place) -> None:
    own = [part.rect for part in place.parts] + [chip for _, chip in place.chips]
    for one, other in combinations(own, 2):
        assert not overlap(one, other), place.branch
    for rect in own if not place.is_tile else ():
        assert place.rect.x <= rect.x <= rect.right <= place.rect.right
        assert place.rect.y <= rect.y <= rect.bottom <= place.rect.bottom
    for part in place.parts:
        check_place(part)


@pytest.mark.parametrize("capture", EVERY, ids=lambda name: Path(name).stem)
def test_boxes_lie_inside_each_other_and_beside_each_other(capture: str) -> None:
    layout = layout_of(capture)
    check_place(layout.root)
    for arch in layout.arches:
        assert layout.root.rect.y < -arch.height
    for one, other in combinations([(each.left, each.right) for each in layout.arches], 2):
        assert not {*one} & {*other}, "two NVLinks on one foot"


@pytest.mark.parametrize("capture", EVERY, ids=lambda name: Path(name).stem)
def test_every_capture_can_be_drawn(capture: str) -> None:
    inventory = inventory_of(capture)
    svg = svg_picture(inventory)
    shown = texts(svg)
    assert svg == svg_picture(inventory)
    assert {f"GPU {gpu.index}" for gpu in inventory.gpus} <= {*shown}
    direct = [link for link in inventory.links if link.nvlinks and not link.switched]
    assert svg.count("C") >= len(direct)
    assert ("NVSwitch" in shown) == any(link.switched for link in inventory.links)
    assert {nic.name for nic in inventory.nics} <= {*shown}


def test_nothing_is_fetched_and_nothing_runs() -> None:
    svg = svg_picture(inventory_of("azure-ndv2-v100-8gpu"))
    assert re.findall(r"https?://[^\"]+", svg) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"<(script|image|use|style|foreignObject)|url\(|@import", svg)


def test_free_taken_and_out_are_told_apart() -> None:
    inventory = inventory_of("titanv-8gpu-pix-phb-sys")
    broken = structs.replace(inventory.gpus[7], health=Health.OUT, health_reason="XID 79")
    inventory = structs.replace(inventory, gpus=(*inventory.gpus[:7], broken))
    shown = texts(svg_picture(inventory, {"GPU-0": "digits-1a2b"}))
    assert shown.count("digits-1a2b") == 1
    assert shown.count("XID 79") == 1
    assert shown.count("free") == 6 + 1  # and the legend
    assert {"taken", "out of service"} <= {*shown}
    assert not {"free", "taken"} & {*texts(svg_picture(inventory))}


def test_hostile_text_stays_text() -> None:
    hostile = "</text><script>alert('x')</script>&\"\x00\x1b[31m\ud800\uffff"
    inventory = Inventory(hostile, 1.0, gpus=(Gpu("GPU-0", 0, model=hostile),), source=hostile)
    svg = svg_picture(inventory, {"GPU-0": hostile})
    root = ElementTree.fromstring(svg)
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    assert any("<script>" in text for text in texts(svg))
    assert svg.encode()


def test_long_names_are_shortened() -> None:
    inventory = Inventory("n" * 500, 1.0, gpus=(Gpu("GPU-0", 0, model="m" * 500),), source="s" * 500)
    assert max(map(len, texts(svg_picture(inventory)))) < 100


def test_a_node_without_gpus_can_be_drawn() -> None:
    assert "no GPUs" in texts(svg_picture(Inventory("cpu-1", 1.0), {}))
