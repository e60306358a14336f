"""Finding the node that is meant, and naming the nearest ones on a mistake."""

import difflib
from collections.abc import Iterable

from gpuyard.client.node_view import NodeView
from gpuyard.contracts.errors import NotFound

MOST_NAMED = 3


def the_node(nodes: Iterable[NodeView], name: str | None) -> list[NodeView]:
    """The node of this name alone; all of them without a name.

    Raises:
        NotFound: there is none; the hint names those that are spelled alike.

    """
    known = {node.node: node for node in nodes}
    if name is None:
        return list(known.values())
    if name not in known:
        raise NotFound(f"there is no node `{name[:80]}`", _hint(name, known), node=name[:80])
    return [known[name]]


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), list(known), n=MOST_NAMED, cutoff=0.5)
    near = near or [node for node in known if node.startswith(name.lower())][:MOST_NAMED]
    if not near:
        return "`gpuyard nodes` lists all nodes."
    return f"Did you mean {' or '.join(f'`{node}`' for node in near)}?"
