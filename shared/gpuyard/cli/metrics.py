"""`gpuyard metrics`: the numbers in a job's output as a table, as curves, or in a file."""

import math
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from msgspec import Meta, Struct

from gpuyard.cli import series_export, terminal
from gpuyard.cli.log_ranks import parse_ranks, render_ranks
from gpuyard.cli.session import AsJson, JobArgument, YardDir, client
from gpuyard.cli.sparkline import sparkline
from gpuyard.client.series import Point, Series, Summary, collect, summarize
from gpuyard.contracts.errors import InvalidSpec, NotFound
from gpuyard.contracts.job import Job

CURVE_WIDTH = 24


class MetricView(Struct, frozen=True, tag="metric", tag_field="type"):
    """A series of one rank as `--json` prints it. Numbers that JSON has no word for are null."""

    job: str
    attempt: int
    name: str
    rank: int
    points: int
    last: float | None
    min: Annotated[float | None, Meta(description="Over finite numbers, as are `max` and `mean`.")]
    max: float | None
    mean: float | None
    bad_points: Annotated[int, Meta(description="Numbers that are NaN or infinite.")]
    last_step: float | None
    last_at_s: float


async def metrics(
    ref: JobArgument,
    /,
    *,
    name: Annotated[
        tuple[str, ...], Parameter(negative=(), help="Only series called so; `*loss` works, repeatable.")
    ] = (),
    rank: Annotated[str | None, Parameter(help="Only these ranks, for example `0,2-5`.")] = None,
    attempt: Annotated[int | None, Parameter(help="Only this attempt; by default the newest.")] = None,
    plot: Annotated[Path | None, Parameter(help="Draw the curves into this file, .png or .svg.")] = None,
    export: Annotated[
        Path | None, Parameter(help="Write all points to this file, .csv, .jsonl or .parquet.")
    ] = None,
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> None:
    """Show the numbers that a job prints."""
    ranks = None if rank is None else parse_ranks(rank)
    if attempt is not None and attempt < 1:
        raise InvalidSpec("--attempt is at least 1")
    _check_files(plot, export)
    async with client(yard_dir) as yard:
        job = await yard.get(ref)
        number = attempt or job.attempt
        async with aclosing(yard.points(job, attempt=attempt, ranks=ranks)) as points:
            wanted = _wanted(points, name)
            if export is not None:
                written = await series_export.export(wanted, series_export.Origin(job.id, number), export)
                terminal.narrate(f"{written:,} points written to {export}")
                return
            series = collect([point async for point in wanted])
    if not series:
        raise _nothing(job, name)
    if plot is not None:
        _plot(series, plot, f"{job.id}, attempt {number}")
    elif as_json:
        for one in series:
            terminal.print_json(_view(job.id, number, one))
    else:
        terminal.print_data(_table(series))


def _check_files(plot: Path | None, export: Path | None) -> None:
    if plot is not None and export is not None:
        raise InvalidSpec("--plot and --export exclude each other", "Call it twice.")
    if export is not None:
        series_export.check(export)
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise InvalidSpec(f"`{plot.name}` has no ending that tells a format", "End it with .png or .svg.")
    if plot is not None and not plot.parent.is_dir():
        raise InvalidSpec(f"there is no directory `{plot.parent}`", "Make it, or choose another.")


async def _wanted(points: AsyncIterator[Point], names: Sequence[str]) -> AsyncIterator[Point]:
    async for point in points:
        if not names or any(fnmatchcase(point.name.lower(), pattern.lower()) for pattern in names):
            yield point


def _nothing(job: Job, names: Sequence[str]) -> NotFound:
    if names:
        return NotFound(
            f"{job.id} has no series `{'`, `'.join(names)}`", "Leave --name out to see which it has."
        )
    return NotFound(
        f"no numbers were found in the output of {job.id}",
        "Print lines such as `step 10/100 loss=0.12`, or give rules of your own under [[metrics]].",
    )


def _plot(series: Sequence[Series], path: Path, title: str) -> None:
    from gpuyard.cli import plots  # noqa: PLC0415 - matplotlib takes half a second

    drawn = plots.draw(series, path, title)
    terminal.narrate(f"{drawn} curves drawn into {path}")


# Words


def _table(series: Sequence[Series]) -> str:
    header = ("NAME", "LAST", "MIN", "MAX", "MEAN", "POINTS", "RANKS", "CURVE")
    rows = []
    notes = []
    for summary in summarize(series):
        group = [one for one in series if one.name == summary.name]
        rows.append(_row(summary, group))
        if summary.first_bad is not None:
            notes.append(_note(summary))
    return "\n".join((terminal.table(header, rows), *notes))


def _row(summary: Summary, group: Sequence[Series]) -> tuple[str, ...]:
    shown = max(group, key=len)
    return (
        summary.name,
        figure(summary.last),
        *(figure(value) for value in (summary.least, summary.most, summary.mean)),
        str(summary.points),
        render_ranks([one.rank for one in group]),
        sparkline(shown.values, CURVE_WIDTH),
    )


def _note(summary: Summary) -> str:
    first = summary.first_bad
    assert first is not None
    where = "" if first.step is None else f" at step {figure(first.step)}"
    text = f"{summary.name} was {first.value}{where} in rank {first.rank}; {summary.bad_points} such points"
    return terminal.paint(text, "red", sys.stdout)


def figure(value: float | None) -> str:
    """A number as people read it: five digits, no exponent where it can be avoided."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    if value % 1 == 0 and size < 1e15:
        return str(int(value))
    if 1e-4 <= size < 1e5:
        return f"{value:.5g}"
    return f"{value:.1f}" if 1 < size < 1e15 else f"{value:.3e}"


def _view(job: str, attempt: int, series: Series) -> MetricView:
    (summary,) = summarize([series])
    return MetricView(
        job=job,
        attempt=attempt,
        name=series.name,
        rank=series.rank,
        points=len(series),
        last=_finite(summary.last),
        min=summary.least,
        max=summary.most,
        mean=summary.mean,
        bad_points=summary.bad_points,
        last_step=_finite(series.steps[-1]),
        last_at_s=series.at_s[-1],
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
