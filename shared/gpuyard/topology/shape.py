"""The shape of a node: what of its hardware matters when GPUs are chosen.

Two nodes of one model have one shape, so that a choice is worked out once for all of them. A shape is
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

_CLOSENESS = {level: rank for rank, level in enumerate(reversed(Level))}
# Any sum of NIC closeness over the pairs of 128 GPUs stays below one pair on the same side.
_SAME_SIDE = 1 << 16


class Sided(Protocol):
    """What knows its side of the machine: a GPU of an inventory, or its row in a captured matrix."""

    @property
    def cpus(self) -> str | None: ...

    @property
    def numa(self) -> int | None: ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Shape:
    """Matrices are `[size][size]` and symmetric. Made by `shape_of` only, which interns them.

    `gb_s` is the bandwidth one way, 0 where unknown. `near` tells what links do not: whether two GPUs are on
    one side of the machine (CPUs, NUMA node), and below that how close the nearest NIC is that they share.
    `sides` numbers the side of each GPU; None where unknown.
    """

    size: int
    gb_s: Matrix[float]
    nvlinks: Matrix[int]
    levels: Matrix[Level | None]
    near: Matrix[int]
    sides: tuple[int | None, ...]


_shapes: WeakValueDictionary[object, Shape] = WeakValueDictionary()


def shape_of(inventory: Inventory) -> Shape:
    """The shape of a node. Ask once per inventory: reading it costs more than a remembered choice."""
    return shape_of_parts(inventory.gpus, inventory.links, inventory.nics)


def shape_of_parts(gpus: Sequence[Sided], links: Iterable[Link], nics: Sequence[Nic] = ()) -> Shape:
    """The shape of these GPUs. A pair without a link counts as unknown."""
    between = {(link.a, link.b): link for link in links}
    pairs = {**between, **{(b, a): link for (a, b), link in between.items()}}
    size = len(gpus)
    sides = _sides(gpus)
    return _interned(
        size,
        _matrix(size, {pair: link.gb_s or 0.0 for pair, link in pairs.items()}, 0.0),
        _matrix(size, {pair: link.nvlinks for pair, link in pairs.items()}, 0),
        _matrix(size, {pair: link.level for pair, link in pairs.items()}, None),
        _near(sides, nics),
        sides,
    )


def _interned(
    size: int,
    gb_s: Matrix[float],
    nvlinks: Matrix[int],
    levels: Matrix[Level | None],
    near: Matrix[int],
    sides: tuple[int | None, ...],
) -> Shape:
    key = (gb_s, nvlinks, levels, near, sides)
    shape = _shapes.get(key)
    if shape is None:
        shape = _shapes[key] = Shape(size, *key)
    return shape


def _matrix(size: int, cells: dict[tuple[int, int], _Cell], empty: _Cell) -> Matrix[_Cell]:
    return tuple(tuple(cells.get((a, b), empty) for b in range(size)) for a in range(size))


def _sides(gpus: Sequence[Sided]) -> tuple[int | None, ...]:
    """Number the sides in order of appearance: by NUMA node if all are known, by near CPUs otherwise."""
    by_numa = all(gpu.numa is not None for gpu in gpus)
    keys = [gpu.numa if by_numa else gpu.cpus for gpu in gpus]
    numbers = {
        key: number for number, key in enumerate(dict.fromkeys(key for key in keys if key is not None))
    }
    return tuple(None if key is None else numbers[key] for key in keys)


def _near(sides: tuple[int | None, ...], nics: Sequence[Nic]) -> Matrix[int]:
    close = [_nic_closeness(gpu, nics) for gpu in range(len(sides))]
    return tuple(
        tuple(
            0 if a == b else _SAME_SIDE * (sides[a] == sides[b]) + _shared(close[a], close[b])
            for b in range(len(sides))
        )
        for a in range(len(sides))
    )


def _nic_closeness(gpu: int, nics: Sequence[Nic]) -> list[int]:
    levels = (nic.levels[gpu] if gpu < len(nic.levels) else None for nic in nics)
    return [0 if level is None else _CLOSENESS[level] for level in levels]


def _shared(a: list[int], b: list[int]) -> int:
    return max(map(min, a, b), default=0)
