"""`gpuyard events`: what happened to jobs, or to nodes, as it was recorded."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from gpuyard.cli import terminal, words
from gpuyard.cli.node_names import the_node
from gpuyard.cli.session import AsJson, JobArgument, YardDir, client
from gpuyard.client.aio import AsyncClient
from gpuyard.client.node_events import RecordedNodeEvent
from gpuyard.client.records import Event
from gpuyard.contracts.errors import InvalidSpec


async def events(
    ref: JobArgument | None = None,
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), negative=(), help="Stay for what is to come.")
    ] = False,
    after: Annotated[int, Parameter(help="Go on behind the event with this `seq`.")] = 0,
    nodes: Annotated[bool, Parameter(negative=(), help="What happened to nodes and their GPUs.")] = False,
    node: Annotated[str | None, Parameter(help="What happened to this node and its GPUs.")] = None,
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> None:
    """Print what happened, to one job, to all jobs, or to nodes."""
    if after < 0:
        raise InvalidSpec("--after is at least 0", "Give the `seq` of an event that `--json` showed.")
    if ref is not None and (nodes or node):
        raise InvalidSpec("a job has no node events", "Name a job, or use --node or --nodes.")
    async with client(yard_dir) as yard:
        if nodes or node:
            await _print_node_events(yard, node, after=after, follow=follow, as_json=as_json)
        else:
            await _print_all(yard.events(ref, after=after, follow=follow), {}, as_json=as_json)


async def _print_node_events(
    yard: AsyncClient, node: str | None, *, after: int, follow: bool, as_json: bool
) -> None:
    known = the_node(await yard.nodes(sample_wait_s=0), node)
    indexes = {gpu.uuid: gpu.index for each in known for gpu in each.gpus}
    await _print_all(yard.node_events(node, after=after, follow=follow), indexes, as_json=as_json)


async def _print_all(
    happened: AsyncGenerator[Event, None] | AsyncGenerator[RecordedNodeEvent, None],
    indexes: words.Indexes,
    *,
    as_json: bool,
) -> None:
    async with aclosing(happened):
        async for event in happened:
            if as_json:
                terminal.print_json(event)
            else:
                terminal.print_data(_told(event, indexes))


def _told(event: Event | RecordedNodeEvent, indexes: words.Indexes) -> str:
    if isinstance(event, Event):
        return f"{_moment(event.at_s):%H:%M:%S}  {event.job}  {event.kind:<10}  {event.message}".rstrip()
    gpu = "" if event.gpu is None else f" GPU {indexes.get(event.gpu, event.gpu)}"
    moment = f"{_moment(event.at_s):%Y-%m-%d %H:%M:%S}"  # nodes live longer than a day
    return f"{moment}  {event.node}{gpu}  {event.kind:<10}  {words.harmless(event.message)}".rstrip()


def _moment(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s).astimezone()
