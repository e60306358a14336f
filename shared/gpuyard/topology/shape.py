"""The shape of a node: what of its hardware matters when GPUs are chosen.

Nodes of one model have one shape, so that a choice is worked out once for all of them. A shape is
interned by value: equal parts give the same object, hence it is compared and hashed by identity. It
holds no names, no health and no load.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

from msgspec.structs import replace

from gpuyard.contracts.hardware import Basis, Inventory, Level, Link, Nic

_Cell = TypeVar("_Cell")
Matrix = tuple[tuple[_Cell, ...], ...]

_CLOSENESS = {level: rank for rank, level in enumerate(reversed(Level), start=1)} | {None: 0}
# Published tests of equal links differ by up to 9 %; a degraded link lacks 20 % and more.
_NOISE = 1.1


class Sided(Protocol):
    """What knows its side of the machine: a GPU of an inventory, or its row in a captured matrix."""

    @property
    def cpus(self) -> str | None: ...

    @property
    def numa(self) -> int | None: ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Shape:
    """Matrices are `[size][size]` and symmetric. Made by `shape_of` only, which interns them.

    `gb_s` is the bandwidth one way, 0 where unknown. `sides` numbers the side of the machine that a GPU is on
    (NUMA node, near CPUs); None where unknown. `nics` ranks the network card that a pair shares, the
    higher the closer. `switched` says that NVLinks go through switches.
    """

    gb_s: Matrix[float]
    nvlinks: Matrix[int]
    levels: Matrix[Level | None]
    sides: tuple[int | None, ...]
    nics: Matrix[int]
    switched: bool

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
    known = tuple(_steadied(links))
    rows: list[list[Link | None]] = [[None] * len(gpus) for _ in gpus]
    for link in known:
        rows[link.a][link.b] = rows[link.b][link.a] = link
    key = (
        tuple(tuple((link and link.gb_s) or 0.0 for link in row) for row in rows),
        tuple(tuple(link.nvlinks if link else 0 for link in row) for row in rows),
        tuple(tuple(link.level if link else None for link in row) for row in rows),
        _sides(gpus),
        _shared_nics(nics, len(gpus)),
        any(link.switched for link in known),
    )
    shape = _shapes.get(key)
    if shape is None:
        shape = _shapes[key] = Shape(*key)
    return shape


def _steadied(links: Iterable[Link]) -> Iterator[Link]:
    """Links of one kind get the same figure where measured ones differ by noise only.

    Or else noise, and not what is broken for others, would tell equal links apart. Links that nobody has
    measured count as the measured ones of their kind, so that half a probe prefers neither half.
    """
    kinds: dict[tuple[object, ...], list[Link]] = {}
    for link in links:
        kinds.setdefault((link.nvlinks, link.level, link.p2p), []).append(link)
    for alike in kinds.values():
        measured = [link for link in alike if link.basis is Basis.MEASURED and link.gb_s]
        common = _median(measured) if measured else None
        for group in _groups(measured):
            yield from (replace(link, gb_s=_median(group)) for link in group)
        for link in alike:
            if link.basis is not Basis.MEASURED:
                yield replace(link, gb_s=common) if common else link
            elif not link.gb_s:
                yield link


def _groups(measured: list[Link]) -> Iterator[list[Link]]:
    """Split where the next faster link is faster by more than noise."""
    group: list[Link] = []
    for link in sorted(measured, key=lambda link: link.gb_s or 0.0):
        if group and (link.gb_s or 0.0) > (group[-1].gb_s or 0.0) * _NOISE:
            yield group
            group = []
        group.append(link)
    if group:
        yield group


def _median(links: Iterable[Link]) -> float:
    return median_low(link.gb_s or 0.0 for link in links)


def _sides(gpus: Sequence[Sided]) -> tuple[int | None, ...]:
    """Number the sides in order of appearance: by NUMA node if all are known, by near CPUs otherwise."""
    by_numa = all(gpu.numa is not None for gpu in gpus)
    keys = [gpu.numa if by_numa else gpu.cpus for gpu in gpus]
    known = [key for key in dict.fromkeys(keys) if key is not None]
    return tuple(None if key is None else known.index(key) for key in keys)


def _shared_nics(nics: Sequence[Nic], size: int) -> Matrix[int]:
    to_nics = [_nic_closeness(gpu, nics) for gpu in range(size)]
    return tuple(tuple(_shared(mine, other) for other in to_nics) for mine in to_nics)


def _nic_closeness(gpu: int, nics: Sequence[Nic]) -> list[int]:
    return [_CLOSENESS[nic.levels[gpu]] if gpu < len(nic.levels) else 0 for nic in nics]


def _shared(a: list[int], b: list[int]) -> int:
    return max(map(min, a, b), default=0)
