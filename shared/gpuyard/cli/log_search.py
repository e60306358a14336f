"""`gpuyard logs --all`: lines of all jobs that hold a regular expression, a page at a time."""

import shlex

from msgspec import Struct

from gpuyard.cli import terminal, words
from gpuyard.cli.log_options import LIMIT, LogOptions, Wanted
from gpuyard.cli.loglines import JsonPrinter, LinePrinter
from gpuyard.cli.wanted import pairs
from gpuyard.client.aio import AsyncClient
from gpuyard.client.search import Found
from gpuyard.contracts.errors import Unavailable


class PageView(Struct, frozen=True, tag="page", tag_field="type"):
    """The end of a search as `--json` prints it: `cursor` goes on with `--cursor`, if there is more."""

    cursor: str | None
    unsearched: dict[str, str]


async def search_all(
    yard: AsyncClient, options: LogOptions, chosen: Wanted, yard_dir: str | None, *, as_json: bool
) -> None:
    """Print what is found.

    Raises:
        Unavailable: the output of some job could not be searched; all that was found is printed.

    """
    printer = JsonPrinter() if as_json else _printer(options)
    limit, cursor, count = options.limit or LIMIT, options.cursor or "", 0
    unsearched: dict[str, str] = {}
    while count < limit:
        found = await _page(yard, options, chosen, limit - count, cursor)
        printer.print(found.lines)
        count += len(found.lines)
        unsearched |= {each.job: each.why for each in found.unasked}
        cursor = found.cursor
        if not cursor:
            break
    if as_json:
        terminal.print_json(PageView(cursor or None, unsearched))
    elif cursor:
        command = shlex.join(_again(options, chosen, cursor, yard_dir))
        terminal.narrate(f"There may be more behind these {words.count(count, 'line')}: {command}")
    elif not (count or unsearched):
        terminal.narrate("No line was found.")
    _check(unsearched)


def _printer(options: LogOptions) -> LinePrinter:
    prefix = options.prefix is not False and not options.raw
    return LinePrinter(prefix=prefix, jobs=prefix, raw=options.raw)


async def _page(yard: AsyncClient, options: LogOptions, chosen: Wanted, limit: int, cursor: str) -> Found:
    """The next lines; none, and a cursor, if much was looked at in vain."""
    return await yard.search_logs(
        chosen.grep,
        labels=pairs(options.label, "--label"),
        ranks=chosen.ranks,
        stream=chosen.stream,
        since_s=chosen.since_s,
        until_s=chosen.until_s,
        ignore_case=chosen.ignore_case,
        limit=limit,
        cursor=cursor,
    )


def _again(options: LogOptions, chosen: Wanted, cursor: str, yard_dir: str | None) -> list[str]:
    """The command that goes on. Times that were `ago` are fixed in it."""
    values = {
        "--grep": options.grep,
        "--rank": options.rank,
        "--stream": options.stream,
        "--since": chosen.since_s,
        "--until": chosen.until_s,
        "--limit": options.limit,
        "--dir": yard_dir,
        "--cursor": cursor,
    }
    valued = [part for name, value in values.items() if value is not None for part in (name, str(value))]
    labels = [part for label in options.label for part in ("--label", label)]
    case = ["-i"] if options.ignore_case else []
    return ["gpuyard", "logs", "--all", *case, *labels, *valued]


def _check(unsearched: dict[str, str]) -> None:
    if unsearched:
        named = "; ".join(f"{job}: {why}" for job, why in unsearched.items())
        raise Unavailable(
            f"{words.count(len(unsearched), 'job')} could not be searched to the end: {named[:2000]}",
            "What is printed is right, but there may be more. Search again in a while.",
        )
