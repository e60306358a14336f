"""Where everything of a node stands in its picture.

All GPUs stand in one row, in the order of the tree, so that every branch is a stretch of that row and its
box lies inside the box around it. NVLinks rise above the row, the longer the higher. PCIe hangs below it:
each box has a bar that its parts and network cards are tied to. Nothing can overlap, whatever the machine.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from gpuyard.contracts.hardware import Inventory, Link
from gpuyard.topology.svg_marks import Rect, text_width
from gpuyard.topology.tree import Branch, Tier

TILE_WIDTH, TILE_HEIGHT = 104.0, 62.0
CHIP_WIDTH, CHIP_HEIGHT = 60.0, 17.0
GAP, PAD = 12.0, 10.0
LABEL_SIZE = 10.5
BAR_HEIGHT = 24.0
_STEM, _LABEL, _CHIP_GAP = 12.0, 20.0, 5.0
_ARCH, _ARCH_PER_TILE = 18.0, 17.0
_TITLE, _STEM_OF_BAR = 22.0, 20.0


@dataclass(frozen=True, slots=True)
class Arch:
    """An NVLink between two GPUs: its feet on the row, and how high it rises."""

    link: Link
    left: float
    right: float
    height: float


@dataclass(frozen=True, slots=True)
class Place:
    """A branch and where it stands. `bus` is the height of its PCIe bar, `bar` its NVSwitch if it has one."""

    branch: Branch
    rect: Rect
    bus: float
    label: str = ""
    parts: tuple["Place", ...] = ()
    chips: tuple[tuple[str, Rect], ...] = ()
    bar: Rect | None = None

    @property
    def is_tile(self) -> bool:
        return self.branch.tier is Tier.GPU

    @property
    def is_island(self) -> bool:
        return self.branch.tier is Tier.NVLINK_ISLAND

    @property
    def depth(self) -> float:
        """Where it ends, with the cards below it."""
        return max((self.rect.bottom, *(chip.bottom for _, chip in self.chips)))

    @property
    def tied(self) -> Iterator["Place"]:
        """What hangs on its bar: islands are no part of PCIe, their parts are."""
        for part in self.parts:
            if part.is_island:
                yield from part.tied
            else:
                yield part

    def walk(self) -> Iterator["Place"]:
        """Itself and everything inside, the widest first."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass(frozen=True, slots=True)
class Layout:
    """The picture before it is drawn. The row of GPUs stands on y = 0."""

    root: Place
    arches: tuple[Arch, ...]
    tiles: Mapping[int, Rect]


def lay_out(inventory: Inventory, tree: Branch, label: Callable[[Branch], str]) -> Layout:
    """Give every branch, tile, card and NVLink its place. `label` tells what stands at the foot of a box."""
    builder = _Builder(inventory, tree, label)
    root = builder.place(tree, 0.0)
    tiles = {place.branch.gpus[0]: place.rect for place in root.walk() if place.is_tile}
    return Layout(root, tuple(builder.arches(tiles)), tiles)


class _Builder:
    def __init__(self, inventory: Inventory, tree: Branch, label: Callable[[Branch], str]) -> None:
        self._label = label
        self._column = {gpu: column for column, gpu in enumerate(_row(tree))}
        self._direct = [link for link in inventory.links if link.nvlinks and not link.switched]
        self._switched = {gpu for link in inventory.links if link.switched for gpu in (link.a, link.b)}

    def place(self, branch: Branch, x: float) -> Place:
        """The place of a branch whose left edge is at x."""
        if branch.tier is Tier.GPU:
            return self._tile(branch, x)
        width = self._width(branch)
        inner = self._inner_width(branch)
        at = x + (width - inner) / 2
        parts = []
        for child in branch.children:
            parts.append(self.place(child, at))
            at = parts[-1].rect.right + GAP
        return self._around(branch, Rect(x, 0.0, width, 0.0), parts)

    def _around(self, branch: Branch, span: Rect, parts: list[Place]) -> Place:
        parts = _level(parts)
        below = max((part.depth for part in parts), default=0.0)
        top = -self.height(branch)
        if branch.tier is Tier.NVLINK_ISLAND:
            rect = Rect(span.x, top, span.width, below + PAD - top)
            bar = Rect(span.x + PAD, top + _TITLE, span.width - 2 * PAD, BAR_HEIGHT)
            return Place(branch, rect, below, parts=tuple(parts), bar=bar if self._has_bar(branch) else None)
        bus = below + _STEM
        chips = _chips(branch.nics, span, bus + _CHIP_GAP)
        end = max((chip.bottom for _, chip in chips), default=bus)
        label = self._label(branch)
        rect = Rect(span.x, top, span.width, end + (_LABEL if label else PAD / 2) + PAD / 2 - top)
        return Place(branch, rect, bus, label, tuple(parts), chips)

    def _has_bar(self, island: Branch) -> bool:
        return self._switched >= set(island.gpus)

    def _tile(self, branch: Branch, x: float) -> Place:
        rect = Rect(x, 0.0, TILE_WIDTH, TILE_HEIGHT)
        return Place(branch, rect, rect.bottom, chips=_chips(branch.nics, rect, rect.bottom + _CHIP_GAP))

    def _width(self, branch: Branch) -> float:
        if branch.tier is Tier.GPU:
            return TILE_WIDTH
        label = text_width(self._label(branch), LABEL_SIZE)
        return max(self._inner_width(branch), label) + 2 * PAD

    def _inner_width(self, branch: Branch) -> float:
        widths = [self._width(child) for child in branch.children]
        return sum(widths) + GAP * (len(widths) - 1) if widths else CHIP_WIDTH * 2

    def height(self, branch: Branch) -> float:
        """How far a branch reaches above the row."""
        if branch.tier is Tier.GPU:
            return 0.0
        inside = set(branch.gpus)
        rises = [self._rise(link) + 8.0 for link in self._direct if {link.a, link.b} <= inside]
        highest = max((*rises, *map(self.height, branch.children)), default=0.0)
        if branch.tier is not Tier.NVLINK_ISLAND:
            return highest + PAD
        bar = _STEM_OF_BAR + BAR_HEIGHT if self._has_bar(branch) else 0.0
        return highest + bar + _TITLE

    def _rise(self, link: Link) -> float:
        return _ARCH + _ARCH_PER_TILE * abs(self._column[link.a] - self._column[link.b])

    def arches(self, tiles: Mapping[int, Rect]) -> Iterator[Arch]:
        """Feet side by side on each tile, in an order that keeps arches from crossing near them."""
        feet: dict[tuple[int, int], float] = {}
        for gpu, tile in tiles.items():
            ends = sorted(self._ends(gpu), key=self._by_reach(gpu))
            for number, other in enumerate(ends, start=1):
                feet[gpu, other] = tile.x + tile.width * number / (len(ends) + 1)
        for link in self._direct:
            left, right = sorted((feet[link.a, link.b], feet[link.b, link.a]))
            yield Arch(link, left, right, self._rise(link))

    def _ends(self, gpu: int) -> list[int]:
        return [link.a + link.b - gpu for link in self._direct if gpu in (link.a, link.b)]

    def _by_reach(self, gpu: int) -> Callable[[int], tuple[bool, int]]:
        """Leftward ones first, the nearest first; then rightward ones, the farthest first."""
        return lambda other: (self._column[other] > self._column[gpu], -self._column[other])


def _row(tree: Branch) -> Iterator[int]:
    if tree.tier is Tier.GPU:
        yield tree.gpus[0]
    for child in tree.children:
        yield from _row(child)


def _level(parts: list[Place]) -> list[Place]:
    """Boxes side by side end at the same depth and begin at the same height."""
    boxes = [part.rect for part in parts if not part.is_tile]
    if len(boxes) < 2:
        return parts
    top, bottom = min(box.y for box in boxes), max(box.bottom for box in boxes)
    return [part if part.is_tile else _stretched(part, top, bottom) for part in parts]


def _stretched(place: Place, top: float, bottom: float) -> Place:
    return replace(place, rect=Rect(place.rect.x, top, place.rect.width, bottom - top))


def _chips(names: tuple[str, ...], span: Rect, top: float) -> tuple[tuple[str, Rect], ...]:
    """Cards in centred rows as wide as the span allows."""
    per_row = max(int((span.width - GAP) / (CHIP_WIDTH + _CHIP_GAP)), 1)
    found = []
    for row, group in groupby(enumerate(names), key=lambda item: item[0] // per_row):
        members = [name for _, name in group]
        width = len(members) * (CHIP_WIDTH + _CHIP_GAP) - _CHIP_GAP
        for column, name in enumerate(members):
            x = span.middle - width / 2 + column * (CHIP_WIDTH + _CHIP_GAP)
            found.append((name, Rect(x, top + row * (CHIP_HEIGHT + _CHIP_GAP), CHIP_WIDTH, CHIP_HEIGHT)))
    return tuple(found)
