"""`gpuyard events`: what happened, as it was recorded."""

from contextlib import aclosing
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from gpuyard.cli import terminal
from gpuyard.cli.session import AsJson, JobArgument, YardDir, client
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
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> None:
    """Print what happened, to one job or to all."""
    if after < 0:
        raise InvalidSpec("--after is at least 0", "Give the `seq` of an event that `--json` showed.")
    async with (
        client(yard_dir) as yard,
        aclosing(yard.events(ref, after=after, follow=follow)) as history,
    ):
        async for event in history:
            if as_json:
                terminal.print_json(event)
            else:
                terminal.print_data(_told(event))


def _told(event: Event) -> str:
    moment = datetime.fromtimestamp(event.at_s).astimezone()
    return f"{moment:%H:%M:%S}  {event.job}  {event.kind:<10}  {event.message}".rstrip()
