"""The shape of a node: what of its hardware matters when GPUs are chosen.

Nodes of one model have one shape, so that a choice is worked out once for all of them. A shape is
interned by value: equal parts give the same object, hence it is compared and hashed by identity. It
holds no names, no health and no load.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from gpuyard.contracts.hardware import Inventory, Level, Link, Nic

_Cell = TypeVar("_Cell")
Matrix = tuple[tuple[_Cell, ...], ...]

_CLOSENESS = {level: rank for rank, level in enumerate(reversed(Level), start=1)} | {None: 0}
_NVLINK_CLOSENESS = len(_CLOSENESS)
# Sums over all pairs of 128 GPUs stay below one step of the digit above.
_DIGIT = 1 << 20


class Sided(Protocol):
    """What knows its side of the machine: a GPU of an inventory, or its row in a captured matrix."""

    @property
    def cpus(self) -> str | None: ...

    @property
    def numa(self) -> int | None: ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Shape:
    """Matrices are `[size][size]` and symmetric. Made by `shape_of` only, which interns them.

    `gb_s` is the bandwidth one way, 0 where unknown. `near` ranks pairs by locality: kind of link, then one
    side of the machine (NUMA node, CPUs), then the closest NIC that they share; it may be summed over pairs.
    `sides` numbers the side of each GPU; None where unknown.
    """

    gb_s: Matrix[float]
    nvlinks: Matrix[int]
    levels: Matrix[Level | None]
    near: Matrix[int]
    sides: tuple[int | None, ...]

    @property
    def size(self) -> int:
        """Number of GPUs."""
        return len(self.sides)

    def closeness(self, a: int, b: int) -> int:
        """Rank of the PCIe level, the higher the closer; 0 where unknown or hidden by NVLink."""
        return _CLOSENESS[self.levels[a][b]]

    def label(self, a: int, b: int) -> str:
        """Name of a link as people know it: `NV4`, `PIX`, `SYS`."""
        return f"NV{self.nvlinks[a][b]}" if self.nvlinks[a][b] else self.levels[a][b] or "?"


_shapes: WeakValueDictionary[object, Shape] = WeakValueDictionary()


def shape_of(inventory: Inventory) -> Shape:
    """The shape of a node. Ask once per inventory: reading it costs more than a remembered choice."""
    return shape_of_parts(inventory.gpus, inventory.links, inventory.nics)


def shape_of_parts(gpus: Sequence[Sided], links: Iterable[Link], nics: Sequence[Nic] = ()) -> Shape:
    """The shape of these GPUs. A pair without a link counts as unknown."""
    rows: list[list[Link | None]] = [[None] * len(gpus) for _ in gpus]
    for link in links:
        rows[link.a][link.b] = rows[link.b][link.a] = link
    sides = _sides(gpus)
    key = (
        tuple(tuple((link and link.gb_s) or 0.0 for link in row) for row in rows),
        tuple(tuple(link.nvlinks if link else 0 for link in row) for row in rows),
        tuple(tuple(link.level if link else None for link in row) for row in rows),
        _near(rows, sides, nics),
        sides,
    )
    shape = _shapes.get(key)
    if shape is None:
        shape = _shapes[key] = Shape(*key)
    return shape


def _sides(gpus: Sequence[Sided]) -> tuple[int | None, ...]:
    """Number the sides in order of appearance: by NUMA node if all are known, by near CPUs otherwise."""
    by_numa = all(gpu.numa is not None for gpu in gpus)
    keys = [gpu.numa if by_numa else gpu.cpus for gpu in gpus]
    known = [key for key in dict.fromkeys(keys) if key is not None]
    return tuple(None if key is None else known.index(key) for key in keys)


def _near(rows: list[list[Link | None]], sides: Sequence[int | None], nics: Sequence[Nic]) -> Matrix[int]:
    to_nics = [_nic_closeness(gpu, nics) for gpu in range(len(rows))]

    def near(a: int, b: int, link: Link | None) -> int:
        if a == b:
            return 0
        digits = (_closeness(link), int(sides[a] == sides[b]), _shared(to_nics[a], to_nics[b]))
        return (digits[0] * _DIGIT + digits[1]) * _DIGIT + digits[2]

    return tuple(tuple(near(a, b, link) for b, link in enumerate(row)) for a, row in enumerate(rows))


def _closeness(link: Link | None) -> int:
    if link is None:
        return 0
    return _CLOSENESS[link.level] + (_NVLINK_CLOSENESS if link.nvlinks else 0)


def _nic_closeness(gpu: int, nics: Sequence[Nic]) -> list[int]:
    return [_CLOSENESS[nic.levels[gpu]] if gpu < len(nic.levels) else 0 for nic in nics]


def _shared(a: list[int], b: list[int]) -> int:
    return max(map(min, a, b), default=0)
