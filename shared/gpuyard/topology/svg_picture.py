"""A picture of a node as SVG: what is near what, over which link, and what is free.

Drawn for any viewer, light or dark: it has a ground of its own, no script, and no font but the viewer's.
The same node gives the same bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.contracts.hardware import Gpu, Inventory
from gpuyard.topology.branch_words import footing, models
from gpuyard.topology.link_kinds import kinds, notes
from gpuyard.topology.occupancy import Holders, Standing, occupancy
from gpuyard.topology.svg_layout import BAR_HEIGHT, LABEL_SIZE, Layout, Place, lay_out
from gpuyard.topology.svg_legend import Item, legend, paragraph
from gpuyard.topology.svg_marks import Rect, arch, box, element, line, phrase, shortened, written
from gpuyard.topology.tree import Tier, node_tree

_INK, _SOFT, _FAINT, _WIRE = "#1f2933", "#52606d", "#7b8794", "#b8c2cc"
_GROUND, _NODE, _EDGE, _ISLAND, _ISLAND_EDGE = "#ffffff", "#f6f8fa", "#ccd4dc", "#e1f3e7", "#a3d3b4"
_BOXES = {Tier.SOCKET: "#e9eef3", Tier.HOST_BRIDGE: "#f1f4f8", Tier.PCIE_SWITCH: "#fafbfc"}
# The most NVLinks first: told apart by width too, for those who see colours alike.
_NVLINKS = (("#15803d", 5.0), ("#0891b2", 3.4), ("#d97706", 2.2))
_STANDINGS = {
    Standing.FREE: ("#ffffff", "#15803d"),
    Standing.TAKEN: ("#dbe7fb", "#2563eb"),
    Standing.OUT: ("#fde2e1", "#c62828"),
}
_CHIP = ("#fff7e6", "#d9b36c")
_PLAIN = ("#ffffff", "#66727e")
_MARGIN, _HEAD, _LEAST_WIDTH = 20.0, 78.0, 460.0
_TITLE, _MODEL, _SMALL = 18.0, 12.0, 9.5
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def svg_picture(inventory: Inventory, holders: Holders | None = None) -> str:
    """Draw a node.

    Args:
        inventory: the node.
        holders: who holds which GPU; None where nobody knows, as of a captured topology.

    """
    tree = node_tree(inventory)
    layout = lay_out(inventory, tree, lambda branch: footing(branch, inventory))
    return _Picture(inventory, holders, layout).draw()


@dataclass(frozen=True, slots=True)
class _Picture:
    inventory: Inventory
    holders: Holders | None
    layout: Layout

    def draw(self) -> str:
        root = self.layout.root.rect
        inner = max(root.width, _LEAST_WIDTH)
        below = _HEAD + root.height + _MARGIN
        samples, end = legend(self._items(), Rect(_MARGIN, below, inner, 0.0))
        told, end = paragraph(notes(self.inventory.links), Rect(_MARGIN, end + 22, inner, 0.0))
        width, height = inner + 2 * _MARGIN, end + _MARGIN
        drawn = element(
            "svg",
            element("title", written(self.inventory.node)),
            box(Rect(0.5, 0.5, width - 1, height - 1), _GROUND, _EDGE, 12),
            *self._head(inner),
            element("g", *self._marks(), transform=f"translate({(width - root.width) / 2} {_HEAD - root.y})"),
            *samples,
            *told,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width:.0f} {height:.0f}",
            width=round(width),
            height=round(height),
            font_family=_FONTS,
            role="img",
        )
        return drawn + "\n"

    def _head(self, width: float) -> Iterator[str]:
        source = shortened(self.inventory.source, _SMALL, width)
        title = shortened(self.inventory.node, _TITLE, width)
        yield phrase(title, _MARGIN, 32, _TITLE, _INK, anchor="start", font_weight=600)
        yield phrase(
            shortened(models(self.inventory.gpus), _MODEL, width), _MARGIN, 50, _MODEL, _SOFT, anchor="start"
        )
        yield phrase(source, _MARGIN, 66, _SMALL, _FAINT, anchor="start")

    def _marks(self) -> Iterator[str]:
        places = list(self.layout.root.walk())
        for place in places:
            yield from self._ground(place)
        for place in places:
            yield from self._wires(place)
        for place in places:
            yield from self._chips(place)
        for place in places:
            if place.is_island:
                yield from self._island_title(place)
        yield from self._arches()
        for place in places:
            if place.is_tile:
                yield self._tile(place)

    def _ground(self, place: Place) -> Iterator[str]:
        if place.is_island:
            yield box(place.rect, _ISLAND, _ISLAND_EDGE, 10)
        elif not place.is_tile:
            yield box(place.rect, _BOXES.get(place.branch.tier, _NODE), _EDGE)

    def _wires(self, place: Place) -> Iterator[str]:
        """The bar of a box and what is tied to it."""
        tied = [] if place.is_tile or place.is_island else list(place.tied)
        ends = [part.rect.middle for part in tied] + [chip.middle for _, chip in place.chips]
        if len(ends) < 2:
            return
        for part in tied:
            yield line([(part.rect.middle, part.rect.bottom), (part.rect.middle, place.bus)], _WIRE, 2)
        if not place.is_tile:
            yield line([(min(ends) - 1, place.bus), (max(ends) + 1, place.bus)], _WIRE, 2)
        for _, chip in place.chips:
            yield line([(chip.middle, place.bus), (chip.middle, chip.y)], _WIRE, 2)

    def _chips(self, place: Place) -> Iterator[str]:
        for name, chip in place.chips:
            yield box(chip, *_CHIP, 4)
            shown = shortened(name, _SMALL, chip.width)
            yield phrase(shown, chip.middle, chip.y + 12, _SMALL, "#7a5410")
        if place.label:
            yield phrase(place.label, place.rect.middle, place.rect.bottom - 9, LABEL_SIZE, _SOFT)

    def _island_title(self, place: Place) -> Iterator[str]:
        inside = set(place.branch.gpus)
        members = [link for link in self.inventory.links if link.nvlinks and {link.a, link.b} <= inside]
        title = f"{place.branch.name}: {', '.join(map(str, kinds(members)))}"
        shown = shortened(title, LABEL_SIZE, place.rect.width - 16)
        yield phrase(
            shown,
            place.rect.x + 10,
            place.rect.y + 16,
            LABEL_SIZE,
            "#166534",
            anchor="start",
            font_weight=600,
        )
        if place.bar is not None:
            yield from self._switch(place, place.bar)

    def _switch(self, island: Place, bar: Rect) -> Iterator[str]:
        colour, width = _NVLINKS[0]
        for gpu in island.branch.gpus:
            tile = self.layout.tiles[gpu]
            yield line([(tile.middle, tile.y), (tile.middle, bar.bottom)], colour, width)
        yield box(bar, colour, radius=6)
        yield phrase("NVSwitch", bar.middle, bar.y + BAR_HEIGHT / 2 + 4.5, 12.5, "#ffffff", font_weight=600)

    def _arches(self) -> Iterator[str]:
        """Thick ones first, so that thin ones stay visible; numbers on top of all."""
        arches = sorted(self.layout.arches, key=lambda each: (-each.link.nvlinks, each.link.a, each.link.b))
        for each in arches:
            colour, width = self._stroke(each.link.nvlinks)
            yield arch(each.left, each.right, each.height, colour, width)
        for each in arches:
            colour, _ = self._stroke(each.link.nvlinks)
            yield phrase(
                each.link.label,
                (each.left + each.right) / 2,
                3.5 - each.height,
                _SMALL,
                colour,
                font_weight=700,
                stroke=_ISLAND,
                stroke_width=4,
                paint_order="stroke",
            )

    def _stroke(self, nvlinks: int) -> tuple[str, float]:
        most_first = sorted({each.link.nvlinks for each in self.layout.arches}, reverse=True)
        return _NVLINKS[min(most_first.index(nvlinks), len(_NVLINKS) - 1)]

    def _tile(self, place: Place) -> str:
        """What does not fit on a tile is told to who points at it."""
        gpu = self.inventory.gpus[place.branch.gpus[0]]
        full = element("title", written(", ".join(filter(None, (gpu.model, gpu.uuid, self._look(gpu)[2])))))
        return element("g", full, *self._face(gpu, place.rect))

    def _face(self, gpu: Gpu, rect: Rect) -> Iterator[str]:
        fill, edge, state = self._look(gpu)
        yield box(rect, fill, edge, 7, stroke_width=1.6)
        rows = [(f"GPU {gpu.index}", 13.5, _INK, 700), (_short(gpu.model), _SMALL, _SOFT, 400)]
        if state:
            rows.append((state, _SMALL, edge, 600))
        at = rect.y + (24 if state else 28)
        for text, size, colour, weight in rows:
            shown = shortened(text, size, rect.width - 14)
            yield phrase(shown, rect.middle, at, size, colour, font_weight=weight)
            at += 15

    def _look(self, gpu: Gpu) -> tuple[str, str, str]:
        """Fill, edge, and what stands on the tile about who has it."""
        if self.holders is None:
            return (*_PLAIN, "")
        now = occupancy(gpu, self.holders)
        return (*_STANDINGS[now.standing], now.words)

    def _items(self) -> Iterator[Item]:
        """What the legend explains: only what is in the picture."""
        direct = [link for link in self.inventory.links if link.nvlinks and not link.switched]
        for kind in kinds(direct):
            colour, width = self._stroke(kind.nvlinks)
            yield Item("line", colour, colour, str(kind), width)
        if any(place.is_island for place in self.layout.root.walk()):
            yield Item("box", _ISLAND, _ISLAND_EDGE, "joined by NVLink")
        if len(self.inventory.gpus) > 1:
            yield Item("line", _WIRE, _WIRE, "PCIe", 2)
        if self.inventory.nics:
            yield Item("box", *_CHIP, "network card")
        if self.holders is not None:
            used = {occupancy(gpu, self.holders).standing for gpu in self.inventory.gpus}
            yield from (Item("box", *_STANDINGS[each], each) for each in Standing if each in used)


def _short(model: str) -> str:
    for maker in ("NVIDIA ", "Tesla ", "GeForce "):
        model = model.removeprefix(maker)
    return model
