"""Nodes that were part of the yard before and are not any more: noticed here, forgotten by `prune`."""

import asyncio
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress

import msgspec

from gpuyard.client import locate
from gpuyard.yard.layout import Layout
from gpuyard.yard.nodes import Node

_TIMEOUT_S = 30.0


async def forget_departed(layout: Layout, nodes: Iterable[Node], environment: Mapping[str, str]) -> bool:
    """Have their records removed if the nodes are not those of the last start; whether that went well."""
    wanted = sorted(node.id for node in nodes)
    known = _known(layout)
    if known == wanted:
        return True
    if known is None and locate.load(layout.root) is None:
        locate.write_private(layout.nodes, msgspec.json.encode(wanted))  # never ran before
        return True
    return await _prune(layout, wanted, environment)


def _known(layout: Layout) -> list[str] | None:
    """The nodes that have records; None if nobody knows."""
    try:
        return msgspec.json.decode(layout.nodes.read_bytes(), type=list[str])
    except (OSError, msgspec.MsgspecError):
        return None


async def _prune(layout: Layout, wanted: list[str], environment: Mapping[str, str]) -> bool:
    # -P: whatever lies in the current directory must not be imported instead of what we mean.
    command = (sys.executable, "-P", "-m", "gpuyard.yard.prune", str(layout.root), *wanted)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, env=dict(environment)
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await process.wait() == 0
    except TimeoutError:
        return False
    finally:
        with suppress(ProcessLookupError):
            process.kill()
