"""`gpuyard logs`: what a job wrote."""

from contextlib import aclosing
from typing import Annotated

from cyclopts import Parameter

from gpuyard.cli import terminal
from gpuyard.cli.loglines import LinePrinter
from gpuyard.cli.session import AsJson, JobArgument, YardDir, client
from gpuyard.contracts.errors import InvalidSpec

MOST_RANKS = 65536


async def logs(
    ref: JobArgument,
    /,
    *,
    follow: Annotated[
        bool, Parameter(name=("--follow", "-f"), negative=(), help="Stay until the job has ended.")
    ] = False,
    rank: Annotated[str | None, Parameter(help="Only these ranks, for example `0,2-5`.")] = None,
    attempt: Annotated[int | None, Parameter(help="Only this attempt; by default the newest.")] = None,
    tail: Annotated[int | None, Parameter(help="Only the last so many lines of each rank.")] = None,
    prefix: Annotated[
        bool | None, Parameter(help="Begin lines with their rank; by default if there are several.")
    ] = None,
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> None:
    """Print what a job wrote."""
    ranks = None if rank is None else ranks_of(rank)
    if (tail is not None and tail < 0) or (attempt is not None and attempt < 1):
        raise InvalidSpec("--tail is at least 0, --attempt at least 1")
    async with client(yard_dir) as yard:
        job = await yard.get(ref)
        several = len(ranks) > 1 if ranks else job.spec.rank_count > 1
        printer = LinePrinter(prefix=several if prefix is None else prefix, as_json=as_json)
        lines = yard.logs(
            job, follow=follow, attempt=attempt, ranks=ranks, tail=tail, notice=terminal.narrate
        )
        async with aclosing(lines):
            async for line in lines:
                printer.print(line)


def ranks_of(text: str) -> frozenset[int]:
    """Read `0,2-5`."""
    ranks: set[int] = set()
    for part in text.split(","):
        first, dash, last = (piece.strip() for piece in part.partition("-"))
        last = last if dash else first
        if not (_is_rank(first) and _is_rank(last) and int(first) <= int(last)):
            raise InvalidSpec(f"`{text}` is not a list of ranks", "Write it like `0,2-5`.")
        ranks.update(range(int(first), int(last) + 1))
    return frozenset(ranks)


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6 and int(text) < MOST_RANKS
