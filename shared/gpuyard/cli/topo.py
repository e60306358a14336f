"""`gpuyard topo`: what joins the GPUs of a node, as text, as JSON and as a picture."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec import structs

from gpuyard.cli import terminal
from gpuyard.cli.node_names import the_node
from gpuyard.cli.session import AsJson, YardDir, client
from gpuyard.cli.topo_views import cluster_view, topo_view
from gpuyard.client.node_view import NodeView
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.hardware import Gpu, Health, Inventory
from gpuyard.topology import captures
from gpuyard.topology.captured import captured_inventory
from gpuyard.topology.occupancy import Holders
from gpuyard.topology.svg_picture import svg_picture
from gpuyard.topology.text_picture import cluster_text, node_text

CaptureName = Annotated[
    str | None,
    Parameter(
        name="--capture",
        help="A captured topology by name, or a file with the output of `nvidia-smi topo -m`.",
    ),
]
Seen = tuple[Inventory, Holders | None]


async def topo(
    node: Annotated[str | None, Parameter(name="NODE", help="The node; all by default.")] = None,
    /,
    *,
    capture: CaptureName = None,
    svg: Annotated[str | None, Parameter(help="Write a picture of the node to this file as well.")] = None,
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> None:
    """Show what joins the GPUs of a node, or of all nodes."""
    if node is not None and capture is not None:
        raise InvalidSpec("NODE and --capture exclude each other", "A capture needs no yard.")
    if capture is not None:
        _show_node(captured_inventory(captures.load(capture)), None, svg, as_json=as_json)
        return
    live = await _live(node, yard_dir)
    if len(live) == 1:
        _show_node(*live[0], svg, as_json=as_json)
    elif svg is not None:
        raise InvalidSpec("a picture shows one node", f"Name one of {', '.join(_names(live)) or 'none'}.")
    else:
        _show_cluster(live, as_json=as_json)


async def _live(node: str | None, yard_dir: str | None) -> list[tuple[Inventory, Holders]]:
    async with client(yard_dir) as yard:
        views = {view.node: view for view in the_node(await yard.nodes(), node)}
        inventories = await yard.inventories()
    return [
        (_with_silence(inventory, views[inventory.node]), _holders(views[inventory.node]))
        for inventory in inventories
        if inventory.node in views
    ]


def _holders(view: NodeView) -> Holders:
    return {gpu.uuid: gpu.holder for gpu in view.gpus if gpu.holder is not None}


def _with_silence(inventory: Inventory, view: NodeView) -> Inventory:
    """Nothing of a node that is not heard is free."""
    return inventory if view.heard else structs.replace(inventory, gpus=tuple(map(_silent, inventory.gpus)))


def _silent(gpu: Gpu) -> Gpu:
    if gpu.health is not Health.OK:
        return gpu
    return structs.replace(gpu, health=Health.UNKNOWN, health_reason="its node is silent")


def _show_node(inventory: Inventory, holders: Holders | None, svg: str | None, *, as_json: bool) -> None:
    if svg is not None:
        _write(svg, svg_picture(inventory, holders))
    if as_json:
        terminal.print_json(topo_view(inventory, holders))
    else:
        _print_lines(node_text(inventory, holders, _paint))


def _show_cluster(live: list[tuple[Inventory, Holders]], *, as_json: bool) -> None:
    if as_json:
        terminal.print_json(cluster_view(live))
    elif live:
        holders = {inventory.node: held for inventory, held in live}
        _print_lines(cluster_text([inventory for inventory, _ in live], holders, _paint))
    else:
        terminal.narrate("No nodes have presented themselves yet.")


def _print_lines(text: str) -> None:
    """Names and sources come from files and other machines."""
    for line in text.split("\n"):
        terminal.print_data(terminal.harmless(line.encode(), keep_colour=terminal.has_colour(sys.stdout)))


def _paint(text: str, colour: str) -> str:
    return terminal.paint(text, colour, sys.stdout)


def _write(path: str, picture: str) -> None:
    try:
        Path(path).write_text(picture, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidSpec(f"can't write the picture to {path[:200]!r}: {error}") from error
    terminal.narrate(f"The picture is in {path}.")


def _names(live: list[tuple[Inventory, Holders]]) -> list[str]:
    return [inventory.node for inventory, _ in live]
