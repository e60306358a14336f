"""The nodes of a yard: this machine, and simulated ones made from captured hardware. Pure."""

import re
from collections.abc import Iterable
from itertools import groupby
from pathlib import PurePath

from msgspec import Struct

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.ids import slug

MOST_OF_A_KIND = 1000
_WITH_COUNT = re.compile(r"(?P<capture>.*):(?P<count>[0-9]+)")


class Node(Struct, frozen=True):
    """One node: its id and where its hardware facts come from; an empty capture is the real machine."""

    id: str
    capture: str = ""


def parse_simulate(text: str) -> tuple[str, int]:
    """Take `NAME-OR-FILE[:COUNT]` apart.

    Raises:
        InvalidSpec: no name, or a count that makes no sense.

    """
    match = _WITH_COUNT.fullmatch(text)
    capture, count = (match["capture"], int(match["count"][:9])) if match else (text, 1)
    if not capture.strip(":"):
        raise InvalidSpec(
            f"`--simulate {text}` names no capture", "Write NAME-OR-FILE or NAME-OR-FILE:COUNT."
        )
    if not 1 <= count <= MOST_OF_A_KIND:
        raise InvalidSpec(
            f"`--simulate {text}` asks for {count} nodes", f"Between 1 and {MOST_OF_A_KIND} are possible."
        )
    return capture, count


def simulated(wanted: Iterable[tuple[str, int]]) -> tuple[Node, ...]:
    """Name the simulated nodes: `<capture>-1`, `<capture>-2` and so on."""
    taken: dict[str, int] = {}
    nodes = []
    for capture, count in wanted:
        name = slug(PurePath(capture).stem if "/" in capture else capture)
        first = taken.get(name, 0) + 1
        taken[name] = first + count - 1
        nodes += [Node(f"{name}-{number}", capture) for number in range(first, first + count)]
    return tuple(nodes)


def with_local(nodes: tuple[Node, ...], hostname: str) -> tuple[Node, ...]:
    """Add the real machine, under the name of its host."""
    local = slug(hostname.partition(".")[0])
    if any(node.id == local for node in nodes):
        local = f"{local[:34]}-local"
    return (Node(local), *nodes)


def describe(nodes: Iterable[Node]) -> str:
    """Name the nodes in one line: `host, 2 simulated (v100-1 to v100-2)`."""
    texts = []
    for capture, group in groupby(nodes, key=lambda node: node.capture):
        ids = [node.id for node in group]
        span = ids[0] if len(ids) == 1 else f"{ids[0]} to {ids[-1]}"
        texts.append(f"{len(ids)} simulated ({span})" if capture else span)
    return ", ".join(texts)
