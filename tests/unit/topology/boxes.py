"""Shapes for tests: every complete capture once, and boxes made up from matrices."""

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

from gpuyard.contracts.hardware import Level, Link
from gpuyard.topology import captures
from gpuyard.topology.captured import captured_inventory
from gpuyard.topology.matrix_text import Affinity
from gpuyard.topology.shape import Shape, shape_of, shape_of_parts

COMPLETE = Path(__file__).parents[2] / "data" / "captures" / "complete"


@cache
def captured_shape(name: str) -> Shape:
    path = COMPLETE / f"{name}.txt"
    return shape_of(captured_inventory(captures.load(str(path) if path.exists() else name)))


@cache
def distinct_captures() -> dict[str, Shape]:
    """Every complete capture, those of equal shape once."""
    names = captures.names() + sorted(path.stem for path in COMPLETE.glob("*.txt"))
    by_shape = {captured_shape(name): name for name in reversed(names)}
    return {name: shape for shape, name in by_shape.items()}


def names_of(sizes: range) -> list[str]:
    return sorted(name for name, shape in distinct_captures().items() if shape.size in sizes)


def box(gb_s: Sequence[Sequence[float]], sides: Sequence[int] | None = None) -> Shape:
    """A machine of PCIe links with these rates; the upper triangle counts."""
    size = len(gb_s)
    links = [Link(a, b, Level.SYSTEM, gb_s=gb_s[a][b]) for a, b in combinations(range(size), 2)]
    return shape_of_parts([Affinity(numa=side) for side in sides or [0] * size], links)


def subsets(size: int) -> range:
    return range(1 << size)
