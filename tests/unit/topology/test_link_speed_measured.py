"""The table of bandwidths against published measurements.

A bidirectional test counts both directions; half of it is comparable where nothing but the link limits
it, so not for copies through host memory.
"""

import re
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuyard.contracts.hardware import Level, Link
from gpuyard.topology import captures
from gpuyard.topology.gpu_models import model_in
from gpuyard.topology.link_speed import described

FOLDER = Path(__file__).parents[2] / "data" / "bandwidth"
ONE_WAY, BOTH_WAYS = "Unidirectional P2P=Enabled", "Bidirectional P2P=Enabled"
STAGED, CONNECTED = "Unidirectional P2P=Disabled", "P2P Connectivity"

Matrix = list[list[float]]


def blocks(name: str) -> dict[str, Matrix]:
    """The tables of a file by their titles; row is source, column is destination."""
    found: dict[str, Matrix] = {}
    title = ""
    for line in (FOLDER / f"{name}.txt").read_text().split("\n"):
        row = re.match(r"\s*(?:GPU )?([0-9]+):?\s+([-0-9. \t]+)$", line)
        if row:
            found[title].append([float(cell) if cell != "-" else 0.0 for cell in row[2].split()])
        elif re.match(r"[A-Z]", line):
            title = line
            found[title] = []
    return found


def block(name: str, title: str) -> Matrix:
    return next(matrix for each, matrix in blocks(name).items() if each.startswith(title))


def model_of(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text().split("\n")[0]


def every(count: int, **what: object) -> list[Link]:
    return [replace(Link(a, b), **what) for a, b in combinations(range(count), 2)]


def sockets(count: int, near: Link, far: Link) -> list[Link]:
    """Two sockets of equal size."""
    half = count // 2
    pairs = combinations(range(count), 2)
    return [replace(near if a // half == b // half else far, a=a, b=b) for a, b in pairs]


def cube_mesh() -> list[Link]:
    """By the numbering that the file tells."""
    nvlinks = dict.fromkeys([(0, 3), (0, 6), (1, 2), (1, 7), (2, 3), (4, 5), (4, 7), (5, 6)], 2)
    nvlinks |= dict.fromkeys([(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7), (6, 7)], 1)
    pairs = combinations(range(8), 2)
    return [
        Link(a, b, nvlinks=nvlinks[a, b]) if (a, b) in nvlinks else Link(a, b, Level.SYSTEM) for a, b in pairs
    ]


def boards() -> list[Link]:
    """Eight K80 GPUs; the rates tell which share switches."""
    near = {(0, 1), (2, 3), *combinations(range(4, 8), 2)}
    level = {True: Level.SINGLE_SWITCH, False: Level.SAME_NODE}
    return [Link(a, b, level[(a, b) in near]) for a, b in combinations(range(8), 2)]


def captured(name: str) -> list[Link]:
    return list(captures.load(name).topology.links)


BONDED, NODE, SYS = Link(0, 1, nvlinks=2), Link(0, 1, Level.SAME_NODE), Link(0, 1, Level.SYSTEM)


@dataclass(frozen=True)
class Run:
    """What a test ran on. `tolerance` is relative; `odd` pairs ran with a damaged link."""

    name: str
    links: list[Link]
    title: str
    tolerance: float
    p2p: bool | None = None
    odd: frozenset[tuple[int, int]] = frozenset()


RUNS = [
    Run("a100-8gpu-nv12", every(8, nvlinks=12), ONE_WAY, 0.02),
    Run("gb200-4gpu-nv18", every(4, nvlinks=18), ONE_WAY, 0.01),
    Run("h100-8gpu-nv18", every(8, nvlinks=18), ONE_WAY, 0.05),
    Run("k80-8gpu", boards(), BOTH_WAYS, 0.11),
    Run("power8-p100-4gpu", sockets(4, BONDED, SYS), ONE_WAY, 0.12),
    Run("power9-ac922-4gpu", captured("power9-ac922-v100-4gpu"), ONE_WAY, 0.06),
    Run("rtx4090-8gpu-p2p-off", sockets(8, NODE, SYS), STAGED, 0.09),
    Run("rtx4090-8gpu-p2p-on", sockets(8, NODE, SYS), ONE_WAY, 0.05, p2p=True),
    Run("rtx4090-8gpu-p2p-on", sockets(8, NODE, SYS), STAGED, 0.09),
    Run("rtx5090-2gpu-p2p-off", captured("rtx5090-2gpu-phb"), ONE_WAY, 0.02),
    Run("rtx5090-2gpu-p2p-off", captured("rtx5090-2gpu-phb"), STAGED, 0.02),
    Run("rtxpro6000-2gpu-pcie5", captured("rtxpro6000-2gpu-node"), "Sequential P2P bandwidth", 0.01),
    Run("v100-4gpu-5hca", captured("v100-4gpu-5hca-no-diagonal"), ONE_WAY, 0.02, odd=frozenset({(2, 3)})),
    Run("v100-4gpu-5hca", every(4, level=Level.SAME_NODE), STAGED, 0.08, p2p=False),
    Run("v100-8gpu-cubemesh", [link for link in cube_mesh() if link.nvlinks], BOTH_WAYS, 0.01),
]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.name}-{run.title.split()[-1]}")
def test_the_table_agrees_with_measurements(run: Run) -> None:
    matrix = block(run.name, run.title)
    share = 0.5 if run.title == BOTH_WAYS else 1.0
    links = [replace(link, p2p=run.p2p) for link in run.links]
    for link in described(links, model_in(model_of(run.name))):
        if (link.a, link.b) not in run.odd:
            for gb_s in (matrix[link.a][link.b], matrix[link.b][link.a]):
                assert link.gb_s == pytest.approx(gb_s * share, rel=run.tolerance), link


@pytest.mark.parametrize(
    ("name", "links"),
    [
        ("power8-p100-4gpu", sockets(4, BONDED, SYS)),
        ("power9-ac922-4gpu", captured("power9-ac922-v100-4gpu")),
        ("rtx4090-8gpu-p2p-off", sockets(8, NODE, SYS)),
        ("rtx5090-2gpu-p2p-off", captured("rtx5090-2gpu-phb")),
        ("v100-4gpu-5hca", captured("v100-4gpu-5hca-no-diagonal")),
        ("v100-8gpu-cubemesh", cube_mesh()),
    ],
)
def test_who_copies_directly_agrees_with_what_the_driver_said(name: str, links: list[Link]) -> None:
    matrix = block(name, CONNECTED)
    for link in described(links, model_in(model_of(name))):
        assert link.p2p is bool(matrix[link.a][link.b]), link


def test_every_measurement_of_copies_is_compared() -> None:
    files = {path.stem for path in FOLDER.glob("*.txt")}
    assert {run.name for run in RUNS} == files - {"nccl-allreduce-busbw"}
