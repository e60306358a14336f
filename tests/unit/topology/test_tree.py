"""The topo-tree: known machines look as they are, and whatever the matrix, the tree is one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.hardware import Gpu, Inventory, Level, Link, Nic
from gpuyard.topology import captures
from gpuyard.topology.captured import captured_inventory
from gpuyard.topology.tree import Branch, Tier, cluster_tree, node_tree

COMPLETE = sorted((Path(__file__).parents[2] / "data" / "captures" / "complete").glob("*.txt"))
EVERY = [*captures.names(), *map(str, COMPLETE)]


def tree_of(capture: str) -> Branch:
    return node_tree(captured_inventory(captures.load(capture)))


def walk(branch: Branch) -> Iterator[Branch]:
    yield branch
    for child in branch.children:
        yield from walk(child)


def groups(tree: Branch, tier: Tier) -> list[tuple[int, ...]]:
    return [branch.gpus for branch in walk(tree) if branch.tier is tier]


def check(tree: Branch, count: int) -> None:
    """Every GPU is one leaf, and children split their parent. Only islands and lone GPUs repeat it."""
    assert sorted(groups(tree, Tier.GPU)) == [(gpu,) for gpu in range(count)]
    for branch in walk(tree):
        inside = [gpu for child in branch.children for gpu in child.gpus]
        assert branch.tier is Tier.GPU or sorted(inside) == list(branch.gpus)
        for child in branch.children:
            repeats = {child.tier, branch.tier} & {Tier.NVLINK_ISLAND, Tier.GPU}
            assert repeats or child.gpus != branch.gpus


@pytest.mark.parametrize("capture", EVERY, ids=lambda name: Path(name).stem)
def test_the_tree_of_every_capture_holds_each_gpu_once(capture: str) -> None:
    inventory = captured_inventory(captures.load(capture))
    tree = node_tree(inventory)
    check(tree, len(inventory.gpus))
    assert sorted(nic for branch in walk(tree) for nic in branch.nics) == sorted(
        nic.name for nic in inventory.nics
    )


@pytest.mark.parametrize(
    ("capture", "tier", "expected"),
    [
        ("nersc-corigpu-v100-8gpu-9nic", Tier.NVLINK_ISLAND, [tuple(range(8))]),
        ("nersc-corigpu-v100-8gpu-9nic", Tier.SOCKET, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        # NVLink hides the level of these pairs; the network cards tell it.
        ("nersc-corigpu-v100-8gpu-9nic", Tier.PCIE_SWITCH, [(0, 1), (2, 3), (4, 5), (6, 7)]),
        # The affinity is that of a container, the same for all.
        ("dgx1-p100-8gpu-collapsed-header", Tier.SOCKET, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ("dgx-h100-8gpu-10hca", Tier.NVLINK_ISLAND, [tuple(range(8))]),
        ("dgx-h100-8gpu-10hca", Tier.SOCKET, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ("p40-8gpu-pix-pxb-soc", Tier.PCIE_SWITCH, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ("p40-8gpu-pix-pxb-soc", Tier.SOCKET, []),
        ("titanv-8gpu-pix-phb-sys", Tier.PCIE_SWITCH, [(0, 1), (2, 3), (4, 5), (6, 7)]),
        ("titanv-8gpu-pix-phb-sys", Tier.SOCKET, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ("titanv-8gpu-pix-phb-sys", Tier.HOST_BRIDGE, []),
        # Every pair is SYS: only the affinity tells the sockets apart.
        ("rtx4090-8gpu-all-sys", Tier.SOCKET, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        ("a100-pcie-8gpu-bridged-pairs", Tier.NVLINK_ISLAND, [(0, 2), (1, 3), (4, 5), (6, 7)]),
        ("rtx-5gpu-numa-odd-one", Tier.SOCKET, [(0,), (1, 2, 3, 4)]),
        ("rtx-5gpu-numa-odd-one", Tier.HOST_BRIDGE, [(1, 2), (3, 4)]),
        ("8gpu-6plus2-uneven-phb", Tier.HOST_BRIDGE, [(1, 2), (3, 4)]),
        ("dgx2-v100-16gpu-derived", Tier.NVLINK_ISLAND, [tuple(range(16))]),
        # A virtual machine shows all as equally near.
        ("azure-ndv2-v100-8gpu", Tier.SOCKET, []),
        ("v100-8gpu-vm-phb", Tier.HOST_BRIDGE, []),
        ("rtx3090-2gpu-nvlink", Tier.SOCKET, []),
    ],
)
def test_known_machines(capture: str, tier: Tier, expected: list[tuple[int, ...]]) -> None:
    assert groups(tree_of(capture), tier) == expected


def test_a_branch_says_what_is_between_its_children() -> None:
    tree = tree_of("titanv-8gpu-pix-phb-sys")
    socket = tree.children[0]
    assert (tree.reach, socket.reach, socket.children[0].reach) == (("SYS",), ("PHB",), ("PIX",))
    assert socket.name == "CPUs 0-13,28-41"


def test_cards_hang_where_they_are_nearest() -> None:
    tree = tree_of("dgx-h100-8gpu-10hca")
    (island,) = tree.children
    assert [socket.nics for socket in island.children] == [("mlx5_8",), ("mlx5_9",)]
    assert island.children[1].children[3].nics == ("mlx5_7",)
    assert tree_of("p40-8gpu-pix-pxb-soc").nics == ("mlx5_0",)


def gpus(count: int, numas: tuple[int | None, ...] = ()) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"GPU-{at}", at, numa=numas[at] if numas else None) for at in range(count))


def test_an_island_across_sockets_stands_beside_the_tree() -> None:
    links = (
        Link(0, 1, level=Level.SAME_NODE),
        Link(0, 2, level=Level.SYSTEM),
        Link(0, 3, level=Level.SYSTEM),
        Link(1, 2, nvlinks=4),
        Link(1, 3, level=Level.SYSTEM),
        Link(2, 3, level=Level.SAME_NODE),
    )
    tree = node_tree(Inventory("n", 1.0, gpus=gpus(4, (0, 0, 1, 1)), links=links))
    assert groups(tree, Tier.SOCKET) == [(0, 1), (2, 3)]
    assert groups(tree, Tier.NVLINK_ISLAND) == []
    assert tree.crossing == ((1, 2),)
    check(tree, 4)


def test_a_node_without_gpus_is_a_tree() -> None:
    assert node_tree(Inventory("n", 1.0)) == Branch(Tier.NODE, "n")


LEVELS = st.one_of(st.none(), st.sampled_from(list(Level)))


@st.composite
def machines(draw: st.DrawFn) -> Inventory:
    count = draw(st.integers(0, 7))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    sides = st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.sampled_from([None, "0-3", "4-7"]))
    found = tuple(
        Gpu(f"GPU-{at}", at, numa=numa, cpus=cpus)
        for at, (numa, cpus) in enumerate(draw(st.lists(sides, min_size=count, max_size=count)))
    )
    links = tuple(
        Link(a, b, level=draw(LEVELS), nvlinks=draw(st.sampled_from([0, 0, 0, 2])))
        for a, b in pairs
        if draw(st.integers(0, 9))
    )
    levels = st.lists(LEVELS, min_size=0, max_size=count).map(tuple)
    nics = tuple(Nic(f"mlx5_{at}", draw(levels)) for at in range(draw(st.integers(0, 2))))
    return Inventory("n", 1.0, gpus=found, links=links, nics=nics)


@settings(max_examples=150, deadline=None)
@given(machines())
def test_whatever_the_links_the_tree_is_one(inventory: Inventory) -> None:
    tree = node_tree(inventory)
    check(tree, len(inventory.gpus))
    assert sorted(nic for branch in walk(tree) for nic in branch.nics) == sorted(
        nic.name for nic in inventory.nics
    )
    joined = [set(island) for island in (*groups(tree, Tier.NVLINK_ISLAND), *tree.crossing)]
    for link in inventory.links:
        if link.nvlinks:
            assert any({link.a, link.b} <= island for island in joined)


def a_node(name: str, rack: str = "") -> Inventory:
    return Inventory(name, 1.0, gpus=(Gpu(f"GPU-{name}", 0),), labels={"rack": rack} if rack else {})


def test_racks_come_from_labels() -> None:
    tree = cluster_tree([a_node("n3"), a_node("n2", "r1"), a_node("n1", "r2"), a_node("n4", "r1")])
    assert [(child.tier, child.name) for child in tree.children] == [
        (Tier.RACK, "r1"),
        (Tier.RACK, "r2"),
        (Tier.NODE, "n3"),
    ]
    assert [node.name for node in tree.children[0].children] == ["n2", "n4"]


def test_a_single_rack_adds_nothing() -> None:
    tree = cluster_tree([a_node("n1", "r1"), a_node("n2", "r1")])
    assert [child.name for child in tree.children] == ["n1", "n2"]
