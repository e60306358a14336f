import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.hardware import Level
from gpuyard.topology import captures
from gpuyard.topology.matrix_text import Affinity, Topology, parse_topology
from gpuyard.topology.table_text import MAX_GPUS, TopologyError
from tests.unit.topology.matrix_forms import Form, forms, renamed, topologies, written

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


def expected() -> Iterator[tuple[str, dict[str, str]]]:
    """What a reader of the captures wrote down: for each name, what stands behind each word."""
    _, *blocks = (FOLDER / "expected.txt").read_text().strip().split("\n\n")
    for block in blocks:
        name, *lines = block.split("\n")
        pairs = (line.split(maxsplit=1) for line in lines)
        yield name, {word: told.strip() for word, told in pairs}


EXPECTED = dict(expected())


def told(runs: str) -> list[str | None]:
    """`2 x 0-3  1 x ?` as one entry for each GPU; `?` is unknown."""
    parts = (re.fullmatch(r"([0-9]+) x (\S+)", run) for run in runs.split("  "))
    return [None if part[2] == "?" else part[2] for part in parts if part for _ in range(int(part[1]))]


def labels(found: Topology, gpu: int) -> str:
    """The row of a GPU, `-` for itself."""
    row = {gpu: "-"}
    for link in found.links:
        if gpu in (link.a, link.b):
            row[link.a + link.b - gpu] = link.label
    return " ".join(row[other] for other in sorted(row))


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_complete_capture_says_what_a_reader_saw(name: str) -> None:
    found, seen = topology(name), dict(EXPECTED[name])
    cpus, numas, nics = told(seen.pop("cpus")), told(seen.pop("numa")), int(seen.pop("nics"))
    assert [gpu.cpus for gpu in found.gpus] == cpus
    assert [gpu.numa for gpu in found.gpus] == [None if numa is None else int(numa) for numa in numas]
    assert [(link.a, link.b) for link in found.links] == list(combinations(range(len(cpus)), 2))
    assert all((link.level is None) == (link.nvlinks > 0) for link in found.links)
    assert len(found.nics) == nics
    levels = {nic.name: " ".join(str(level) for level in nic.levels) for nic in found.nics}
    for device, row in seen.items():
        assert (labels(found, int(device[3:])) if device.startswith("GPU") else levels[device]) == row


def test_every_complete_capture_is_expected() -> None:
    assert sorted(EXPECTED) == sorted(TEXTS)


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


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("GPU0 X 0-3", 1),
        ("$ nvidia-smi topo -m\n\tGPUO\tGPU1\nGPU0\t X \tPIX\nGPU1\tPIX\t X ", 3),
        (matrix("GPU0 X PIX", "GPU1 PIX"), 3),
        (matrix("GPU0 X PIX", "what is this", "GPU0 X PIX"), 4),
        ("\r\n\r\n" + matrix("GPU0 X PIX", "GPU1 SYS X").replace("\n", "\r\n"), 4),
    ],
)
def test_a_refusal_names_the_line(text: str, line: int) -> None:
    with pytest.raises(TopologyError) as caught:
        parse_topology(text)
    assert caught.value.line == line


TWO = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
TWO += "GPU0\t X \tNV12\tPIX\t0-3\t0\t\tN/A\nGPU1\tNV12\t X \tSYS\t4-7\t1\t\tN/A\nNIC0\tPIX\tSYS\t X \t\t\t\n"


@pytest.mark.parametrize(
    "text",
    [
        f"root@box:~# nvidia-smi topo -m\n{TWO}root@box:~# exit\n",
        f"\ufeff{TWO}",
        "".join(f"> {line}\n" for line in TWO.split("\n")),
        TWO.replace("\t", " | "),
        TWO.replace("PIX\t0-3", "PIX\n0-3"),
        TWO.replace("NV12\tPIX", "NV12\nPIX"),
        TWO.replace("0\t\tN/A", "0\n N/A"),
        TWO.replace("GPU1\tNIC0", "GPU1\nNIC0", 1),
        TWO.replace("NIC0\tCPU", "NIC0\nCPU", 1),
        TWO.replace("\tGPU1\tNIC0\t", "GPU1NIC0", 1),
        TWO.replace("NV12\tPIX", "NV12PIX"),
        TWO + TWO,
        TWO.split("\n")[0] + "\n" + TWO,
        TWO.replace("GPU1\tNV", "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\nGPU1\tNV"),
        TWO + "GPU0 and GPU1 are linked by a bridge.\nGPU 0: NVIDIA A100\nmlx5_0 port 1 ==> ib0\n",
        TWO + "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n",
    ],
    ids=[
        "prompts", "bom", "quoted", "bars", "row-wrapped-at-affinity", "row-wrapped", "affinity-wrapped",
        "header-wrapped", "titles-wrapped", "header-glued", "cells-fused", "twice", "header-twice",
        "kernel-message-inside", "prose", "legend",
    ],
)  # fmt: skip
def test_form_does_not_matter(text: str) -> None:
    assert parse_topology(text) == parse_topology(TWO)


def test_the_legend_names_network_cards() -> None:
    assert parse_topology(f"{TWO}\nNIC Legend:\n\n  NIC0: mlx5_4\n\n").nics[0].name == "mlx5_4"
    assert parse_topology(f"{TWO}\n  NIC0: mlx5_bond_0\r\n  NIC1: mlx5_1\r\n").nics[0].name == "mlx5_bond_0"


@pytest.mark.parametrize("second", ["NIC0: mlx5_5", "NIC1: mlx5_4"])
def test_a_legend_that_contradicts_itself_is_refused(second: str) -> None:
    with pytest.raises(TopologyError, match="contradicts itself") as caught:
        parse_topology(f"{TWO}\n  NIC0: mlx5_4\n  {second}\n")
    assert caught.value.line == 7


def test_levels_that_nvlinks_hide_come_from_a_second_matrix() -> None:
    plain = TWO.replace("NV12", "SYS")
    for text in (TWO + plain, plain + TWO, TWO + plain + TWO):
        (link,) = parse_topology(f"$ nvidia-smi topo -m; nvidia-smi topo -mp\n{text}").links
        assert (link.nvlinks, link.level) == (12, Level.SYSTEM)


@pytest.mark.parametrize(
    ("old", "new"),
    [("NV12", "NV4"), ("0-3", "0-7"), ("\tPIX", "\tPXB"), ("NIC0", "NIC1")],
)
def test_a_second_matrix_of_another_machine_is_refused(old: str, new: str) -> None:
    with pytest.raises(TopologyError, match="a second matrix, which differs") as caught:
        parse_topology(TWO + TWO.replace(old, new))
    assert caught.value.line == 5


def test_three_matrices_must_agree() -> None:
    with pytest.raises(TopologyError, match="a second matrix") as caught:
        parse_topology(TWO + TWO.replace("NV12", "SYS") + TWO.replace("NV12", "NODE"))
    assert caught.value.line == 9


def test_fused_affinity_is_unknown_not_guessed() -> None:
    """Seen on a driver that prints narrow columns: the CPUs 168 to 223, then NUMA node 1."""
    header = "GPU0    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
    assert parse_topology(f"{header}GPU0     X      56-111,168-2231               N/A").gpus == (Affinity(),)
    assert parse_topology(f"{header}GPU0     X      0-55,112-167 0N/A").gpus == (Affinity(),)


def read(text: str) -> tuple[object, ...] | None:
    """Links, and levels of network cards; None if refused."""
    try:
        found = parse_topology(text)
    except TopologyError as error:
        line = error.line
    else:
        count = len(found.gpus)
        assert [(link.a, link.b) for link in found.links] == list(combinations(range(count), 2))
        assert all(link.level or link.nvlinks for link in found.links)
        assert all(len(nic.levels) == count for nic in found.nics)
        return found.links, tuple(nic.levels for nic in found.nics)
    assert 1 <= line <= len(re.split("\r\n|\r|\n", text))
    return None


WORDS = [
    "GPU0", "GPU1", "GPU2", "NIC0", "mlx5_1", "X", "PIX", "SYS", "NODE", "NV4", "NV", "OK", "GNS", "0-3",
    "N/A", "#", "Legend:", "NIC0:", ">", "|", "CPU", "Affinity", "CPU Affinity", "NUMA Affinity",
    "GPU NUMA ID", "topo -p2p r",
]  # fmt: skip
BLANKS = [" ", "\t", "\n", "\r", "\t\t", "", "\x1b[4m", "\u00a0", "\u0663", "\x00", "\u2028"]


@given(st.text(max_size=200) | st.lists(st.sampled_from(WORDS + BLANKS), max_size=60).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    read(text)


@given(topology=topologies(), form=forms)
@settings(max_examples=200)
def test_a_matrix_reads_back_from_every_published_form(topology: Topology, form: Form) -> None:
    assert parse_topology(written(topology, form)) == renamed(topology, form)


@given(topology=topologies(), data=st.data())
def test_a_matrix_without_one_of_its_gpu_rows_is_refused(topology: Topology, data: st.DataObject) -> None:
    lines = written(topology, Form()).split("\n")
    del lines[data.draw(st.integers(1, len(topology.gpus)))]
    assert read("\n".join(lines)) is None


@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
@settings(max_examples=300)
def test_one_wrong_character_never_yields_another_matrix(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    start = data.draw(st.integers(0, len(text)))
    removed = data.draw(st.integers(0, 1))
    put = data.draw(
        st.sampled_from(["", "\n", "\t", " ", "#", "0", "1", "2", "X", "P", "N", "S", "\x00", "\x1b"])
    )
    assert read(text[:start] + put + text[start + removed :]) in (None, read(text))


@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_one_line_lost_repeated_or_moved_never_yields_another_matrix(name: str, data: st.DataObject) -> None:
    lines = TEXTS[name].split("\n")
    at, to = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    rest = lines[:at] + lines[at + 1 :]
    repeated, moved = list(lines), list(rest)
    repeated.insert(to, lines[at])
    moved.insert(to, lines[at])
    for changed in (rest, repeated, moved):
        assert read("\n".join(changed)) in (None, read(TEXTS[name]))


@given(name=st.sampled_from(sorted(TEXTS)), data=st.data())
def test_a_text_cut_anywhere_never_yields_another_matrix(name: str, data: st.DataObject) -> None:
    text = TEXTS[name]
    first, last = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    assert read(text[:first]) in (None, read(text))
    assert read(text[:first] + text[last:]) in (None, read(text))


@pytest.mark.parametrize(
    "text",
    [
        "GPU0" + " " * 1_000_000 + "CPU Affinity x",
        "GPU0 " * 200_000,
        "GPU0\nGPU0 X " + "0-1," * 200_000,
        "GPU0\n" * 200_000,
        "GPU0 GPU1\nGPU0 " + "X\n" * 200_000,
        "GPU0 CPU Affinity\nGPU0 X 0\n" + "0\n" * 200_000 + "GPU1 X",
        "NIC0 " * 200_000 + "GPU0\nGPU0 X" + " X" * 200_000,
        "".join(f"NIC{i}: mlx5_{i}\n" for i in range(100_000)),
        "GPU0 GPU1\nGPU0 X " + "NODE" * 200_000,
        "\x1b[" * 200_000,
        "[1" * 200_000,
        "\n".join(f"GPU0 N{i}" for i in range(100_000)),
    ],
    ids=range(12),
)
def test_a_hostile_text_costs_no_time(text: str) -> None:
    assert read(text) is None
