from pathlib import Path

import pytest

from gpuyard.contracts.hardware import Level, Link
from gpuyard.topology.capture import parse_capture
from gpuyard.topology.matrix_text import parse_topology
from gpuyard.topology.p2p_text import Status, parse_p2p, with_p2p
from gpuyard.topology.table_text import TopologyError

FOLDER = Path(__file__).parents[2] / "data" / "captures" / "p2p"
LINKS = "\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n"
ONE_WAY = "# nvidia-smi topo -p2p w\n \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tCNS\tX\n"


def table(status: str, command: str = "") -> str:
    rows = f" \tGPU0\tGPU1\t\n GPU0\tX\t{status}\t\n GPU1\t{status}\tX\t\n"
    return f"{command}\n{rows}\nLegend:\n\n  X    = Self\n"


@pytest.mark.parametrize(
    ("name", "gpus", "capability", "status"),
    [
        ("p2p-h100-8gpu-ok", 8, "r", Status.OK),
        ("p2p-l4-2gpu-cns", 2, "r", Status.CHIPSET),
        ("p2p-rtx5090-2gpu-gns", 2, "rw", Status.GPU),
    ],
)
def test_captured_status(name: str, gpus: int, capability: str, status: Status) -> None:
    (matrix,) = parse_p2p((FOLDER / f"{name}.txt").read_text())
    assert matrix.capability == capability
    assert matrix.status == tuple(tuple(None if a == b else status for b in range(gpus)) for a in range(gpus))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_status_alone_is_no_topology(path: Path) -> None:
    with pytest.raises(TopologyError, match="no matrix of links") as caught:
        parse_topology(path.read_text())
    assert caught.value.line == 2
    assert "nvidia-smi topo -m" in caught.value.hint


def test_a_matrix_of_links_holds_no_status() -> None:
    assert parse_p2p(LINKS) == ()


@pytest.mark.parametrize(
    ("command", "capability"),
    [
        ("$ nvidia-smi topo -p2p r", "r"),
        ("root@box:~# nvidia-smi  topo -p2p  rw", "rw"),
        ("$ nvidia-smi topo -p2p r\n$ nvidia-smi topo -p2p n", "n"),
        ("nvidia-smi topo --p2pstatus=w", "w"),
        ("# peers", ""),
    ],
)
def test_the_command_above_names_the_capability(command: str, capability: str) -> None:
    assert parse_p2p(table("OK", command))[0].capability == capability


def test_direction_counts() -> None:
    (matrix,) = parse_p2p(ONE_WAY)
    assert matrix.status == ((None, Status.OK), (Status.CHIPSET, None))
    assert with_p2p([Link(0, 1)], [matrix])[0].p2p is False


@pytest.mark.parametrize(
    ("tables", "p2p"),
    [
        ("", None),
        (table("OK"), True),
        (table("U"), None),
        (table("GNS", "$ nvidia-smi topo -p2p r"), False),
        (table("OK", "$ nvidia-smi topo -p2p r") + table("NS", "$ nvidia-smi topo -p2p w"), False),
        (table("OK", "$ nvidia-smi topo -p2p r") + table("U", "$ nvidia-smi topo -p2p w"), None),
        (table("OK", "$ nvidia-smi topo -p2p r") + table("NS", "$ nvidia-smi topo -p2p n"), True),
        (table("NS", "$ nvidia-smi topo -p2p a"), None),
    ],
)
def test_a_capture_takes_peer_copies_from_the_tables_below_its_matrix(tables: str, p2p: bool | None) -> None:
    assert parse_capture("box", f"# a box\n{LINKS}{tables}").topology.links == (
        Link(0, 1, Level.HOST_BRIDGE, p2p=p2p),
    )


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("GPU0 GPU1\nGPU0 X OK\nGPU1 OK", 3, "cut: 1 of 2"),
        ("GPU0 GPU1\nGPU0 X OK", 2, "row of GPU1 is missing"),
        ("GPU0 GPU1\nGPU0 X OK\nGPU1 PIX X", 3, "`PIX` between GPU1 and GPU0 is no status"),
        ("GPU0 GPU1\nGPU0 X OK\nGPU1 X X", 3, "`X` between GPU1 and GPU0"),
        ("GPU0 GPU1\nGPU0 X OK\nGPU1 OK X OK", 3, "more cells"),
        ("GPU0 GPU1 CPU Affinity\nGPU0 X OK\nGPU1 OK X", 1, "GPUs only"),
        ("GPU0 NIC0\nGPU0 X OK", 1, "GPUs only"),
        ("", 1, "header row"),
    ],
)
def test_refused(text: str, line: int, says: str) -> None:
    with pytest.raises(TopologyError, match=says) as caught:
        parse_p2p(text)
    assert caught.value.line == line


def test_status_of_another_machine_is_refused() -> None:
    with pytest.raises(TopologyError, match="8 GPUs, but the links join 2") as caught:
        parse_capture("box", LINKS + (FOLDER / "p2p-h100-8gpu-ok.txt").read_text())
    assert caught.value.line == 5
