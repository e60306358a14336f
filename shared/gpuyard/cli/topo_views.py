"""What `gpuyard topo --json` prints. Fields are only ever added."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Basis, Inventory, Link, Nic
from gpuyard.topology.occupancy import Holders, Occupancy, occupancy
from gpuyard.topology.tree import Branch, cluster_tree, node_tree

ITSELF = "X"


class LinkCell(Struct, frozen=True):
    """One cell of the matrix."""

    level: Annotated[str | None, Meta(description="`PIX` ... `SYS`, `X` for itself, None if unknown.")] = None
    nvlinks: int = 0
    gb_s: float | None = None
    p2p: bool | None = None
    switched: bool = False
    basis: Basis | None = None


class TopoView(Struct, frozen=True):
    """One node."""

    gpus: Annotated[int, Meta(description="How many there are.")]
    links: Annotated[tuple[tuple[LinkCell, ...], ...], Meta(description="`[gpus][gpus]`, symmetric.")]
    numa: tuple[int | None, ...]
    cpus: tuple[str | None, ...]
    nics: tuple[Nic, ...]
    tree: Branch
    node: str
    models: tuple[str, ...]
    source: str
    states: Annotated[
        tuple[Occupancy, ...] | None, Meta(description="Of each GPU; None where nobody knows.")
    ] = None


class ClusterView(Struct, frozen=True):
    """Several nodes."""

    gpus: int
    nodes: tuple[TopoView, ...]
    tree: Branch


def topo_view(inventory: Inventory, holders: Holders | None) -> TopoView:
    """The node as `topo` prints it."""
    gpus = inventory.gpus
    return TopoView(
        gpus=len(gpus),
        links=_matrix(inventory),
        numa=tuple(gpu.numa for gpu in gpus),
        cpus=tuple(gpu.cpus for gpu in gpus),
        nics=inventory.nics,
        tree=node_tree(inventory),
        node=inventory.node,
        models=tuple(gpu.model for gpu in gpus),
        source=inventory.source,
        states=None if holders is None else tuple(occupancy(gpu, holders) for gpu in gpus),
    )


def cluster_view(nodes: Sequence[tuple[Inventory, Holders]]) -> ClusterView:
    """All nodes as `topo` prints them."""
    return ClusterView(
        gpus=sum(len(inventory.gpus) for inventory, _ in nodes),
        nodes=tuple(topo_view(inventory, holders) for inventory, holders in nodes),
        tree=cluster_tree(inventory for inventory, _ in nodes),
    )


def _matrix(inventory: Inventory) -> tuple[tuple[LinkCell, ...], ...]:
    cells = {(link.a, link.b): _cell(link) for link in inventory.links}
    each = range(len(inventory.gpus))
    return tuple(
        tuple(LinkCell(ITSELF) if a == b else cells.get((min(a, b), max(a, b)), LinkCell()) for b in each)
        for a in each
    )


def _cell(link: Link) -> LinkCell:
    return LinkCell(link.level, link.nvlinks, link.gb_s, link.p2p, link.switched, link.basis)
