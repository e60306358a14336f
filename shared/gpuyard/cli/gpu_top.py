"""`gpuyard gpu-top`: all GPUs of the cluster, one line each, live or once."""

import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from cyclopts import Parameter
from msgspec import Struct

from gpuyard.cli import gpu_top_words as words
from gpuyard.cli import terminal
from gpuyard.cli.gpu_top_rows import Row, Sort, rows_of
from gpuyard.cli.gpu_top_state import State, chosen
from gpuyard.cli.node_names import the_node
from gpuyard.cli.session import AsJson, YardDir, client
from gpuyard.cli.words import harmless
from gpuyard.client.aio import AsyncClient

HEADER = ("NODE", "GPU", "MODEL", "UTILISED", "MEMORY", "POWER", "TEMP", "JOB", "OWNER", "HEALTH")


class GpuTop(Struct, frozen=True):
    """What `--json` prints."""

    at_s: float
    gpus: list[Row]


async def gpu_top(
    *,
    once: Annotated[
        bool, Parameter(negative=(), help="Print one table and end, as without a terminal.")
    ] = False,
    sort: Annotated[Sort, Parameter(help="What rows are ordered by.")] = Sort.NODE,
    reverse: Annotated[bool, Parameter(negative=(), help="The other way round.")] = False,
    text: Annotated[
        str,
        Parameter(name="--filter", help="Only rows that hold these words: node, model, job, owner, health."),
    ] = "",
    free: Annotated[bool, Parameter(negative=(), help="Only GPUs that a job could be given now.")] = False,
    node: Annotated[str | None, Parameter(help="Only this node.")] = None,
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> int:
    """Show all GPUs of the cluster, one line each."""
    state = State(sort=sort, reverse=reverse, text=text, free_only=free)
    async with client(yard_dir) as yard:
        if once or as_json or not _is_live():
            rows = rows_of(the_node(await yard.nodes(), node))
            _print(chosen(rows, state), as_json=as_json)
            return 0
        from gpuyard.cli.gpu_top_live import show  # noqa: PLC0415 - only what is drawn on a screen needs it

        the_node(await yard.nodes(sample_wait_s=0), node)
        async with aclosing(_feed(yard, node)) as feed:
            return await show(yard, feed, state)


def _is_live() -> bool:
    """Whether there is a person at a terminal that can be drawn on."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") not in (None, "", "dumb")


async def _feed(yard: AsyncClient, node: str | None) -> AsyncGenerator[list[Row], None]:
    async with aclosing(yard.watch_nodes()) as views:
        async for nodes in views:
            yield rows_of(each for each in nodes if node in (None, each.node))


def _print(rows: list[Row], *, as_json: bool) -> None:
    if as_json:
        terminal.print_json(GpuTop(time.time(), rows))
    else:
        terminal.print_data(terminal.table(HEADER, map(_cells, rows)))


def _cells(row: Row) -> tuple[str, ...]:
    reason = f" ({harmless(row.health_reason)})" if row.health_reason and row.heard else ""
    return (
        row.node,
        str(row.index),
        harmless(words.short_model(row.model)),
        words.percent(row.utilisation),
        words.memory(row.memory_used_bytes, row.memory_bytes),
        words.power(row.power_w, row.power_limit_w),
        words.temperature(row.temperature_c),
        row.job or "-",
        harmless(row.owner) if row.owner else "-",
        f"{row.condition}{reason}",
    )
