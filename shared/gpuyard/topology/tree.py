"""The topo-tree: which GPUs share an NVLink island, a PCIe switch, a socket, a node, a rack, a cluster.

It is made to be looked at, and to say what is near. Bandwidth is never read off it: cube meshes and
bridges between sockets are no trees, so `choice` works on the matrix of links instead. An island that
cuts across sockets or switches can't be a branch; the node lists it under `crossing`.

Nothing is guessed. Where NVLink hides how two GPUs reach each other over PCIe, a network card near both
may tell. Where it does not, or where a virtual machine shows all as equally near, the tree is flat.
Quadratic in the number of GPUs of a node.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Inventory, Level, Link, Nic

RACK_LABEL = "rack"

_NEARNESS = {level: place for place, level in enumerate(Level)}


class Tier(StrEnum):
    """What a branch of the tree stands for, the widest first."""

    CLUSTER = "cluster"
    RACK = "rack"
    NODE = "node"
    SOCKET = "socket"
    HOST_BRIDGE = "host_bridge"
    PCIE_SWITCH = "pcie_switch"
    NVLINK_ISLAND = "nvlink_island"
    GPU = "gpu"


_WIDTH = {tier: place for place, tier in enumerate(Tier)}
# From far to near. What joins GPUs at one level joins them at all farther levels too.
_PCIE = (
    (Level.HOST_BRIDGE, Tier.HOST_BRIDGE, "host bridge"),
    (Level.MULTI_SWITCH, Tier.PCIE_SWITCH, "PCIe switches"),
    (Level.SINGLE_SWITCH, Tier.PCIE_SWITCH, "PCIe switch"),
    (Level.SAME_BOARD, Tier.PCIE_SWITCH, "board"),
)

_UNTOLD = "socket"


class Branch(Struct, frozen=True):
    """A part of the tree. Parts with the same GPUs as the one around them are left out, islands are not."""

    tier: Tier
    name: str
    gpus: Annotated[tuple[int, ...], Meta(description="Positions in the node's list; empty above.")] = ()
    reach: Annotated[
        tuple[str, ...], Meta(description="Kinds of links between its children, the most frequent first.")
    ] = ()
    nics: Annotated[tuple[str, ...], Meta(description="Network cards that are nearest to it.")] = ()
    children: tuple["Branch", ...] = ()
    crossing: Annotated[
        tuple[tuple[int, ...], ...], Meta(description="NVLink islands that cut across the branches.")
    ] = ()


@dataclass(frozen=True, slots=True)
class _Group:
    tier: Tier
    name: str
    gpus: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Side:
    """Where a GPU is by its affinity."""

    numa: int | None = None
    cpus: str | None = None


def cluster_tree(inventories: Iterable[Inventory], name: str = "cluster") -> Branch:
    """The tree over several nodes. Racks come from the nodes' label `rack`; nodes without stand beside."""
    by_rack: dict[str, list[Branch]] = defaultdict(list)
    for inventory in sorted(inventories, key=lambda each: each.node):
        by_rack[inventory.labels.get(RACK_LABEL, "")].append(node_tree(inventory))
    alone = by_rack.pop("", [])
    racks = [Branch(Tier.RACK, rack, children=tuple(nodes)) for rack, nodes in sorted(by_rack.items())]
    if len(racks) == 1 and not alone:
        alone, racks = list(racks[0].children), []
    return Branch(Tier.CLUSTER, name, children=(*racks, *alone))


def node_tree(inventory: Inventory) -> Branch:
    """The tree of one node."""
    whole = frozenset(range(len(inventory.gpus)))
    pcie = [group for group in _pcie_groups(inventory) if group.gpus != whole]
    islands = _islands(whole, inventory.links)
    crossing = [island for island in islands if any(map(_crosses(island), pcie))]
    nested = [*pcie, *(_island(island) for island in islands if island not in crossing)]
    nested.sort(key=lambda group: (-len(group.gpus), _WIDTH[group.tier]))
    root = _Group(Tier.NODE, inventory.node, whole)
    leaves = [_Group(Tier.GPU, f"GPU {gpu.index}", frozenset((at,))) for at, gpu in enumerate(inventory.gpus)]
    grower = _Grower(inventory.links, _nics_by_place((root, *pcie, *leaves), inventory.nics))
    return grower.grow(root, [*nested, *leaves], tuple(tuple(sorted(island)) for island in crossing))


@dataclass(frozen=True, slots=True)
class _Grower:
    links: tuple[Link, ...]
    nics: dict[_Group, list[str]]

    def grow(self, group: _Group, inner: list[_Group], crossing: tuple[tuple[int, ...], ...] = ()) -> Branch:
        """The branch of a group; `inner` holds every group inside it, the widest first."""
        children = []
        while inner:
            first, *rest = inner
            children.append(self.grow(first, [each for each in rest if each.gpus <= first.gpus]))
            inner = [each for each in rest if not each.gpus <= first.gpus]
        children.sort(key=lambda child: child.gpus)
        nics = tuple(self.nics.get(group, ()))
        gpus = tuple(sorted(group.gpus))
        return Branch(group.tier, group.name, gpus, self._reach(children), nics, tuple(children), crossing)

    def _reach(self, children: list[Branch]) -> tuple[str, ...]:
        labels = Counter(str(link.label) for link in links_between(children, self.links))
        return tuple(sorted(labels, key=lambda label: (-labels[label], label)))


def links_between(branches: Iterable[Branch], links: Iterable[Link]) -> list[Link]:
    """The links from one of these branches to another."""
    side = {gpu: number for number, branch in enumerate(branches) for gpu in branch.gpus}
    known = [link for link in links if link.a in side and link.b in side]
    return [link for link in known if side[link.a] != side[link.b]]


def _pcie_groups(inventory: Inventory) -> Iterator[_Group]:
    """Sockets, host bridges and switches. Of those with the same GPUs the socket stays, or the nearest."""
    count = len(inventory.gpus)
    apart = _Distances(inventory)
    sockets = [_socket(apart.sides, gpus) for gpus in _components(count, apart.same_socket)]
    found = {group.gpus: group for group in sockets if len(group.gpus) > 1 or group.name != _UNTOLD}
    told = set(found)
    for level, tier, name in _PCIE:
        for gpus in _components(count, partial(apart.within, level)):
            if len(gpus) > 1 and gpus not in told:
                found[gpus] = _Group(tier, name, gpus)
    yield from found.values()


def _socket(sides: Sequence[_Side], members: frozenset[int]) -> _Group:
    numas = {sides[at].numa for at in members}
    cpus = {sides[at].cpus for at in members}
    numa, near = (next(iter(each)) if len(each) == 1 else None for each in (numas, cpus))
    name = f"NUMA {numa}" if numa is not None else f"CPUs {near}" if near else _UNTOLD
    return _Group(Tier.SOCKET, name, members)


class _Distances:
    """How far apart the GPUs of a node are over PCIe, as far as is known."""

    def __init__(self, inventory: Inventory) -> None:
        self._levels = {(link.a, link.b): link.level for link in inventory.links}
        self._nics = inventory.nics
        sides = [_Side(gpu.numa, gpu.cpus) for gpu in inventory.gpus]
        # The same for all: one socket, or a container that shows only its own CPUs. Then it tells nothing.
        self.sides = sides if len(set(sides)) > 1 else [_Side()] * len(sides)

    def within(self, level: Level, a: int, b: int) -> bool:
        known = self._level(a, b)
        return known is not None and _NEARNESS[known] <= _NEARNESS[level]

    def same_socket(self, a: int, b: int) -> bool:
        """By the link, or by affinity: some boards show `SYS` inside one socket too."""
        return self.within(Level.SAME_NODE, a, b) or self._same_side(a, b)

    def _same_side(self, a: int, b: int) -> bool:
        one, other = self.sides[a], self.sides[b]
        if one.numa is not None and other.numa is not None:
            return one.numa == other.numa
        return one.cpus is not None and one.cpus == other.cpus

    def _level(self, a: int, b: int) -> Level | None:
        known = self._levels.get((a, b))
        return self._through_nics(a, b) if known is None else known

    def _through_nics(self, a: int, b: int) -> Level | None:
        """No farther apart than the farther of both from a card."""
        farther = [max(near, key=_NEARNESS.__getitem__) for nic in self._nics if (near := _both(nic, a, b))]
        return min(farther, key=_NEARNESS.__getitem__, default=None)


def _both(nic: Nic, a: int, b: int) -> tuple[Level, Level] | None:
    if max(a, b) >= len(nic.levels):
        return None
    one, other = nic.levels[a], nic.levels[b]
    return (one, other) if one and other else None


def _nics_by_place(places: Iterable[_Group], nics: Iterable[Nic]) -> dict[_Group, list[str]]:
    """Each card at the narrowest group that holds all GPUs nearest to it."""
    narrowest_first = sorted(places, key=lambda group: len(group.gpus))
    found: dict[_Group, list[str]] = defaultdict(list)
    for nic in nics:
        near = _nearest(nic)
        place = next((group for group in narrowest_first if near and near <= group.gpus), None)
        found[place or narrowest_first[-1]].append(nic.name)
    return found


def _nearest(nic: Nic) -> frozenset[int]:
    known = {at: level for at, level in enumerate(nic.levels) if level is not None}
    best = min(known.values(), key=_NEARNESS.__getitem__, default=Level.SYSTEM)
    if best is Level.SYSTEM:
        return frozenset()
    return frozenset(at for at, level in known.items() if level is best)


def _islands(whole: frozenset[int], links: Iterable[Link]) -> list[frozenset[int]]:
    bonded = {(link.a, link.b) for link in links if link.nvlinks}
    return [gpus for gpus in _components(len(whole), lambda a, b: (a, b) in bonded) if len(gpus) > 1]


def _island(gpus: frozenset[int]) -> _Group:
    return _Group(Tier.NVLINK_ISLAND, "NVLink island", gpus)


def _crosses(island: frozenset[int]) -> Callable[[_Group], bool]:
    return lambda group: bool(group.gpus & island) and not (group.gpus <= island or island <= group.gpus)


def _components(count: int, joined: Callable[[int, int], bool]) -> list[frozenset[int]]:
    """Sets of positions that are connected, the one with the lowest position first."""
    left = dict.fromkeys(range(count))
    found = []
    while left:
        reached, edge = set[int](), [next(iter(left))]
        while edge:
            at = edge.pop()
            reached.add(at)
            left.pop(at, None)
            edge.extend(other for other in left if other not in edge and joined(*sorted((at, other))))
        found.append(frozenset(reached))
    return found
