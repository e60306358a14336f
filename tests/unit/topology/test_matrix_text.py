import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.hardware import Level
from gpuyard.topology import captures
from gpuyard.topology.matrix_text import MAX_GPUS, Affinity, Topology, TopologyError, parse_topology

FOLDER = Path(__file__).parents[2] / "data" / "captures"
SHIPPED = Path(captures.__file__).parent / "captures"
COMPLETE = sorted([*SHIPPED.glob("*.txt"), *(FOLDER / "complete").glob("*.txt")])
TEXTS = {path.stem: path.read_text() for path in COMPLETE}
DAMAGE = [
    ("8gpu-mlx4-truncated-padded", 7, "row of GPU5 is missing"),
    ("a800-8gpu-nv8-row-cut", 10, "row of GPU7 is cut"),
    ("dgx2-v100-16gpu-truncated", 6, "row of GPU4 is missing"),
    ("gb200-4gpu-row-cut", 6, "row of GPU3 is cut"),
    ("h100-8gpu-headless-merged-affinity", 2, "header row, which names the GPUs, is missing above"),
]


def topology(name: str) -> Topology:
    return parse_topology(TEXTS[name])


def matrix(*rows: str, header: str = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID") -> str:
    return "\n".join((header, *rows))


@pytest.mark.parametrize("path", COMPLETE, ids=lambda path: path.stem)
def test_every_complete_capture_parses(path: Path) -> None:
    found = parse_topology(path.read_text())
    named = re.search(r"([0-9]+)gpu", path.stem)
    count = len(found.gpus)
    assert count == int(named[1]) if named else count > 0
    assert [(link.a, link.b) for link in found.links] == [
        (a, b) for a in range(count) for b in range(a + 1, count)
    ]
    assert all((link.level is None) == (link.nvlinks > 0) for link in found.links)
    assert all(len(nic.levels) == count for nic in found.nics)


@pytest.mark.parametrize(("name", "line", "says"), DAMAGE)
def test_damaged_captures_are_refused_where_the_damage_is(name: str, line: int, says: str) -> None:
    with pytest.raises(TopologyError, match=says) as caught:
        parse_topology((FOLDER / "damaged" / f"{name}.txt").read_text())
    assert caught.value.line == line
    assert f"line {line}" in caught.value.message
    assert "nvidia-smi topo -m" in caught.value.hint


def test_every_damaged_capture_is_tested() -> None:
    assert sorted(name for name, _, _ in DAMAGE) == sorted(
        path.stem for path in (FOLDER / "damaged").glob("*.txt")
    )


def test_cube_mesh() -> None:
    found = topology("v100-8gpu-cubemesh-1hca")
    labels = {(link.a, link.b): link.label for link in found.links}
    assert labels[0, 3] == "NV2"
    assert labels[0, 1] == "NV1"
    assert labels[0, 7] == "SYS"
    assert sum(link.nvlinks for link in found.links) == 24
    assert found.nics[0].name == "mlx5_0"
    assert found.nics[0].levels[:3] == (Level.SAME_NODE, Level.SAME_NODE, Level.SINGLE_SWITCH)
    assert found.gpus[0] == Affinity("0-11,24-35", None)


def test_soc_is_the_older_name_of_sys() -> None:
    found = topology("dgx1-p100-8gpu-collapsed-header")
    assert {link.level for link in found.links if not link.nvlinks} == {Level.SYSTEM}
    assert [nic.name for nic in found.nics] == ["mlx5_0", "mlx5_2", "mlx5_1", "mlx5_3"]


@pytest.mark.parametrize(
    ("name", "affinities"),
    [
        ("a100-4gpu-empty-affinity", [("0", 0), ("0", 0), (None, 1), (None, 1)]),
        ("hgx-a100-4gpu-delta", [("48-63", 3), ("32-47", 2), ("16-31", 1), ("0-15", 0)]),
        ("rtx-2gpu-nv2-numa-na", [("0-23", None)] * 2),
        ("threadripper-2gpu-numa-na", [("0-127", None)] * 2),
        ("4gpu-irregular-columns", [("0-31", 0)] * 4),
        ("1gpu-4nic-ansi-header", [("169,171,173", 1)]),
        ("1gpu-legacy", [("0-7", None)]),
        ("8gpu-no-affinity-columns", [(None, None)] * 8),
        ("v100-8gpu-vm-phb", [("0-63", None)] * 8),
    ],
)
def test_affinity(name: str, affinities: list[tuple[str | None, int | None]]) -> None:
    assert [(gpu.cpus, gpu.numa) for gpu in topology(name).gpus] == affinities


@pytest.mark.parametrize(
    ("rest", "affinity"),
    [
        ("\t0-3\t1\t\tN/A", Affinity("0-3", 1)),
        ("\t0-3\t0,3-9\t\t2", Affinity("0-3", None)),
        (" \t\t1\t\tN/A", Affinity(None, 1)),
        ("\t0-3\t\t\t2", Affinity("0-3", None)),
        ("  0-3   N/A", Affinity(None, None)),
        ("", Affinity(None, None)),
    ],
)
def test_an_empty_affinity_cell_is_never_filled_from_its_neighbour(rest: str, affinity: Affinity) -> None:
    found = parse_topology(matrix(f"GPU0\t X \tPIX{rest}", f"GPU1\tPIX\t X {rest}"))
    assert found.gpus == (affinity, affinity)


def test_terminal_codes_legend_blank_lines_and_carriage_returns_do_no_harm() -> None:
    plain = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X "
    dressed = "# a box\r\n\r\n\x1b[4m\tGPU0\tGPU1\x1b[0m\r\nGPU0\t X \tNV4\r\n\r\nGPU1\tNV4\t X\r\n\r\n"
    dressed += "Legend:\r\n\r\n  X = Self\r\n"
    assert parse_topology(dressed) == parse_topology(plain)


def test_rows_may_come_in_any_order() -> None:
    found = parse_topology(matrix("GPU1\tPIX\tX\t4-7", "GPU0\tX\tPIX\t0-3"))
    assert [gpu.cpus for gpu in found.gpus] == ["0-3", "4-7"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "header row"),
        ("\n# only a comment\n", "header row"),
        ("CPU Affinity", "names the GPUs, is missing"),
        ("mlx5_0 mlx5_1", "names the GPUs, is missing"),
        ("GPU0 GPU2\nGPU0 X PIX\nGPU2 PIX X", "lacks a column: GPU1"),
        ("GPU0 GPU0", "twice"),
        ("GPU00", "header row"),
        ("GPU0 WATER\nGPU0 X PIX", "line 2: the header row"),
        (" ".join(f"GPU{i}" for i in range(MAX_GPUS + 1)), "more than"),
        (matrix("GPU0 X PIX", "GPU1 PXB X"), "GPU0 to GPU1 is PIX, but back it is PXB"),
        (matrix("GPU0 X NV4", "GPU1 NV3 X"), "back it is NV3"),
        (matrix("GPU0 X NV4", "GPU1 SYS X"), "back it is SYS"),
        (matrix("GPU0 X PIX", "GPU0 X PIX", "GPU1 PIX X"), "second row for GPU0"),
        (matrix("GPU0 X PIX", "GPU1 PIX X", "GPU2 X X"), "`GPU2` is not in the header"),
        (matrix("GPU0 X PIX", "GPU1 PIX"), "cut: 1 of 2"),
        (matrix("GPU0 X X", "GPU1 X X"), "`X` between GPU0 and GPU1"),
        (matrix("GPU0 PIX PIX", "GPU1 PIX PIX"), "`PIX` between GPU0 and GPU0"),
        (matrix("GPU0 X NV0", "GPU1 NV0 X"), "`NV0`"),
        (matrix("GPU0 X NV100", "GPU1 NV100 X"), "`NV100`"),
        (matrix("GPU0 X PIX 0-3 0 N/A 7", "GPU1 PIX X"), "more cells than columns"),
        (matrix("GPU0 X PIX 0-3; 0 N/A", "GPU1 PIX X"), "no list of CPUs"),
        ("GPU0 NIC0 NIC1\nGPU0 X PIX PIX\nNIC0 PIX X SYS", "network cards are missing"),
        ("GPU0 NIC0\nGPU0 X NV4\nNIC0 NV4 X", "between GPU0 and NIC0 is no link"),
        ("GPU0 NIC0\nGPU0 X PIX\nNIC0 SYS X", "back it is"),
    ],
)  # fmt: skip
def test_refused(text: str, says: str) -> None:
    with pytest.raises(TopologyError, match=says):
        parse_topology(text)


def links_or_refusal(text: str) -> tuple[object, ...] | None:
    try:
        return parse_topology(text).links
    except TopologyError as error:
        line = error.line
    assert 1 <= line <= text.count("\n") + 1
    return None


WORDS = [
    "GPU0",
    "GPU1",
    "GPU2",
    "NIC0",
    "X",
    "PIX",
    "SYS",
    "NV4",
    "NV",
    "0-3",
    "N/A",
    "CPU Affinity",
    "#",
    "Legend:",
]
BLANKS = [" ", "\t", "\n", "\t\t", "", "\x1b[4m", "\u00a0", "\u0663"]


@given(st.text(max_size=200) | st.lists(st.sampled_from(WORDS + BLANKS), max_size=60).map("".join))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    links_or_refusal(text)


@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
@settings(max_examples=300)
def test_one_wrong_character_never_yields_another_matrix(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    start = data.draw(st.integers(0, len(text)))
    removed = data.draw(st.integers(0, 1))
    put = data.draw(
        st.sampled_from(["", "\n", "\t", " ", "#", "0", "1", "2", "X", "P", "N", "S", "\x00", "\x1b"])
    )
    assert links_or_refusal(text[:start] + put + text[start + removed :]) in (None, topology(name).links)


@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_a_text_cut_anywhere_never_yields_another_matrix(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    first, last = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    assert links_or_refusal(text[:first]) in (None, topology(name).links)
    assert links_or_refusal(text[:first] + text[last:]) in (None, topology(name).links)


@given(
    name=st.sampled_from(sorted(TEXTS)),
    order=st.randoms(use_true_random=False),
    separator=st.sampled_from(["\t", " ", "        "]),
)
def test_order_of_rows_and_kind_of_blanks_do_not_matter(name: str, order: object, separator: str) -> None:
    lines = [line for line in TEXTS[name].split("\n") if line.strip() and not line.startswith("#")]
    order.shuffle(rows := lines[1:])  # type: ignore[attr-defined]
    text = "\n".join([lines[0], *(row.replace("\t", f" {separator}") for row in rows)])
    found = parse_topology(text)
    assert (found.links, found.nics) == (topology(name).links, topology(name).nics)


def test_a_hostile_line_costs_no_time() -> None:
    assert links_or_refusal("GPU0" + " " * 1_000_000 + "CPU Affinity x") is None
    assert links_or_refusal("GPU0 " * 200_000) is None
    assert links_or_refusal("GPU0\nGPU0 X " + "0-1," * 200_000) is None
