"""A node or a cluster as text: the tree, and the matrix of links as `nvidia-smi topo -m` shows it, with GB/s.

Colours are the caller's business: `paint` gets a text and the name of a colour. It is called after cells
are padded, so that whatever it adds can't shift a column.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from gpuyard.contracts.hardware import Gpu, Inventory, Level, Link
from gpuyard.topology.branch_words import branch_name, models, pcie_words
from gpuyard.topology.link_kinds import kinds, notes, speed
from gpuyard.topology.occupancy import Holders, Standing, occupancy
from gpuyard.topology.tree import Branch, Tier, cluster_tree, node_tree

Paint = Callable[[str, str], str]

_COLOURS = {Standing.FREE: "green", Standing.TAKEN: "blue", Standing.OUT: "red"}
_NEAR = (Level.SAME_BOARD, Level.SINGLE_SWITCH, Level.MULTI_SWITCH)

Cell = tuple[str, str]
"""A text and its colour; no colour is empty."""


def plain(text: str, colour: str) -> str:
    """Paint nothing."""
    return text


def node_text(inventory: Inventory, holders: Holders | None = None, paint: Paint = plain) -> str:
    """Tree, matrix and legend of a node.

    Args:
        inventory: the node.
        holders: who holds which GPU; None where nobody knows, as of a captured topology.
        paint: colours a text.

    """
    head = [paint(inventory.node, "bold") + f": {models(inventory.gpus)}"]
    if inventory.source:
        head.append(paint(inventory.source, "dim"))
    tree = _Tree(inventory, holders, paint)
    parts = ["\n".join(head), "\n".join(tree.lines(node_tree(inventory)))]
    if len(inventory.gpus) > 1 or inventory.nics:
        parts.append("\n".join(_aligned(_matrix(inventory), paint)))
    parts.append("\n".join(paint(note, "dim") for note in _legend(inventory)))
    return "\n\n".join(filter(None, parts))


def cluster_text(
    inventories: Sequence[Inventory], holders: Mapping[str, Holders], paint: Paint = plain
) -> str:
    """The tree over several nodes, each in one line. `holders` goes by node."""
    by_node = {inventory.node: inventory for inventory in inventories}

    def name(branch: Branch) -> str:
        if branch.tier is not Tier.NODE:
            return f"{branch.tier} {branch.name}" if branch.tier is Tier.RACK else branch.name
        inventory = by_node[branch.name]
        return f"{paint(branch.name, 'bold')}: {_summary(inventory, branch, holders[branch.name])}"

    return "\n".join(
        indent + name(branch)
        for indent, branch in _indented(cluster_tree(inventories))
        if branch.tier in (Tier.CLUSTER, Tier.RACK, Tier.NODE)
    )


def _summary(inventory: Inventory, tree: Branch, holders: Holders) -> str:
    free = sum(occupancy(gpu, holders).standing is Standing.FREE for gpu in inventory.gpus)
    islands = [len(branch.gpus) for _, branch in _indented(tree) if branch.tier is Tier.NVLINK_ISLAND]
    islands += [len(island) for island in tree.crossing]
    sizes = ", ".join(map(str, sorted(islands, reverse=True)))
    joined = f", NVLink island{'s' * (len(islands) > 1)} of {sizes}" if islands else ""
    return f"{models(inventory.gpus)}, {free} free{joined}"


class _Tree:
    def __init__(self, inventory: Inventory, holders: Holders | None, paint: Paint) -> None:
        self._inventory = inventory
        self._holders = holders
        self._paint = paint

    def lines(self, tree: Branch) -> Iterator[str]:
        for indent, branch in _indented(tree):
            nics = f"  [{', '.join(branch.nics)}]" if branch.nics else ""
            yield f"{self._paint(indent, 'dim')}{self._name(branch)}{nics}".rstrip()
        for island in tree.crossing:
            named = ", ".join(f"GPU {self._inventory.gpus[gpu].index}" for gpu in island)
            yield f"NVLink also joins {named}, across the tree"

    def _name(self, branch: Branch) -> str:
        if branch.tier is Tier.GPU:
            return self._gpu(self._inventory.gpus[branch.gpus[0]])
        name = "node" if branch.tier is Tier.NODE else branch_name(branch, self._inventory)
        words = self._nvlinks(branch) or pcie_words(branch, self._inventory)
        return f"{name}: {words}" if words else name

    def _nvlinks(self, branch: Branch) -> str:
        if branch.tier is not Tier.NVLINK_ISLAND:
            return ""
        inside = set(branch.gpus)
        members = [link for link in self._inventory.links if link.nvlinks and {link.a, link.b} <= inside]
        shared = ", through switches" if any(link.switched for link in members) else ""
        return ", ".join(map(str, kinds(members))) + shared

    def _gpu(self, gpu: Gpu) -> str:
        name = f"GPU {gpu.index}"
        if self._holders is None:
            return name
        now = occupancy(gpu, self._holders)
        state = now.words if now.standing is Standing.FREE else f"{now.standing}: {now.words}"
        return f"{name:<6}  {self._paint(state, _COLOURS[now.standing])}"


def _indented(tree: Branch, first: str = "", rest: str = "") -> Iterator[tuple[str, Branch]]:
    """Every branch with the lines that lead to it."""
    yield first, tree
    for number, child in enumerate(tree.children, start=1):
        last = number == len(tree.children)
        yield from _indented(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _matrix(inventory: Inventory) -> Iterator[list[Cell]]:
    """Rows of cells, the header first."""
    links = {(link.a, link.b): link for link in inventory.links}
    most = max((link.nvlinks for link in inventory.links), default=0)
    names = [f"GPU{gpu.index}" for gpu in inventory.gpus]
    yield [("", ""), *((name, "bold") for name in names), ("NUMA", "bold"), ("CPUS", "bold")]
    for at, gpu in enumerate(inventory.gpus):
        pairs = ((min(at, other), max(at, other)) for other in range(len(names)))
        cells = [_cell(links.get(pair), most) if pair[0] < pair[1] else ("X", "dim") for pair in pairs]
        numa = "?" if gpu.numa is None else str(gpu.numa)
        yield [(names[at], "bold"), *cells, (numa, ""), (gpu.cpus or "?", "")]
    for nic in inventory.nics:
        levels = [(str(level or "?"), _level_colour(level)) for level in nic.levels]
        yield [(nic.name, "bold"), *levels]


def _cell(link: Link | None, most: int) -> Cell:
    if link is None:
        return "?", "dim"
    mark = "*" if link.p2p is False else ""
    rate = "" if link.gb_s is None else f" {speed(link.gb_s)}"
    colour = ("green" if link.nvlinks == most else "cyan") if link.nvlinks else _level_colour(link.level)
    return f"{link.label}{rate}{mark}", colour


def _level_colour(level: Level | None) -> str:
    return "dim" if level in (None, Level.SYSTEM) else "" if level in _NEAR else "yellow"


def _aligned(rows: Iterable[Sequence[Cell]], paint: Paint) -> Iterator[str]:
    table = list(rows)
    count = max(map(len, table))
    widths = [max(len(row[at][0]) for row in table if at < len(row)) for at in range(count)]
    for row in table:
        last = len(row) - 1
        padded = [
            (text.ljust(widths[at]) if at < last else text, colour) for at, (text, colour) in enumerate(row)
        ]
        yield "  ".join(paint(text, colour) if colour else text for text, colour in padded).rstrip()


def _legend(inventory: Inventory) -> list[str]:
    told = notes(inventory.links)
    if any(link.nvlinks for link in inventory.links):
        most = max(link.nvlinks for link in inventory.links)
        told.insert(0, f"NV{most}: joined by {most} NVLink{'s' * (most > 1)}")
    return [("* " if note.startswith("no P2P") else "") + note for note in told]
