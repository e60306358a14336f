"""`gpuyard ps`, `show` and `cancel`: looking at jobs, and stopping them."""

import sys
import time
from contextlib import aclosing
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from gpuyard.cli import choices, progress, terminal, words
from gpuyard.cli.places import gpu_indexes
from gpuyard.cli.session import AsJson, JobArgument, YardDir, client
from gpuyard.cli.views import job_view
from gpuyard.client.aio import AsyncClient
from gpuyard.client.records import Event
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.job import Job
from gpuyard.contracts.placement import Placement

WIDEST_REASON = 60


async def ps(
    *,
    everything: Annotated[
        bool, Parameter(name=("--all", "-a"), negative=(), help="Finished jobs too.")
    ] = False,
    limit: Annotated[int | None, Parameter(help="At most so many, newest first.")] = None,
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> None:
    """List jobs."""
    async with client(yard_dir) as yard:
        jobs = await yard.list(active_only=not everything, limit=limit)
    if as_json:
        terminal.print_json([job_view(job) for job in jobs])
    elif jobs:
        now_s = time.time()
        header = ("JOB", "STATE", "ATTEMPT", "RANKS", "GPUS", "NODES", "AGE", "WHY")
        terminal.print_data(terminal.table(header, (_row(job, now_s) for job in jobs)))
    else:
        terminal.narrate("No jobs." if everything else "No active jobs; `gpuyard ps --all` lists all.")


def _row(job: Job, now_s: float) -> tuple[str, ...]:
    return (
        job.id,
        job.state,
        str(job.attempt),
        str(job.spec.rank_count),
        str(job.spec.gpu_count),
        ",".join(job.placement.nodes) if job.placement else "-",
        words.duration(now_s - job.submitted_at_s),
        _shortened(words.why(job)),
    )


def _shortened(text: str) -> str:
    return text if len(text) <= WIDEST_REASON else text[: WIDEST_REASON - 1] + "…"


async def show(ref: JobArgument, /, *, as_json: AsJson = False, yard_dir: YardDir = None) -> None:
    """Show one job: its state, why, where, and what happened."""
    async with client(yard_dir) as yard:
        job = await yard.get(ref)
        how_far = await yard.progress(job)
        if as_json:
            terminal.print_json(job_view(job, how_far))
            return
        indexes = await gpu_indexes(yard, job)
        async with aclosing(yard.events(job)) as history:
            events = [event async for event in history]
    colour = words.STATE_COLOURS[job.state]
    terminal.print_data(f"{job.id}  {terminal.paint(job.state, colour, sys.stdout)}")
    facts = [("progress", progress.told(how_far, job, time.time()) if how_far else ""), *_facts(job, indexes)]
    for name, value in facts:
        if value:
            terminal.print_data(f"  {name:<10} {value}")
    for event in events:
        terminal.print_data(f"    {_moment(event.at_s)}  {_told(event)}")


def _facts(job: Job, indexes: words.Indexes) -> list[tuple[str, str]]:
    spec = job.spec
    return [
        *((f"task {task.name}", words.task(task)) for task in spec.tasks),
        ("priority", str(spec.priority)),
        ("owner", spec.owner),
        ("labels", ", ".join(f"{key}={value}" for key, value in spec.labels.items())),
        ("only on", ", ".join(spec.nodes)),
        ("workdir", spec.workdir),
        ("attempt", str(job.attempt)),
        *(_where(job.placement, indexes) if job.placement else ()),
        ("result" if job.state.is_final else "why", words.why(job)),
        ("next", job.reason.hint if job.reason else ""),
        ("submitted", _moment(job.submitted_at_s)),
        ("started", _moment(job.started_at_s)),
        ("ended", _moment(job.ended_at_s)),
    ]


def _where(placement: Placement, indexes: words.Indexes) -> list[tuple[str, str]]:
    """Where it runs, and why there."""
    return [
        ("placement", words.place(placement, indexes)),
        ("links", choices.worth(placement)),
        *(("not taken", line) for line in choices.not_taken(placement, indexes)),
    ]


def _told(event: Event) -> str:
    return f"{event.kind:<10} {event.message}".rstrip()


def _moment(at_s: float | None) -> str:
    return "" if at_s is None else f"{datetime.fromtimestamp(at_s).astimezone():%Y-%m-%d %H:%M:%S}"


async def cancel(
    *refs: JobArgument,
    wait: Annotated[bool, Parameter(negative=(), help="Return when nothing of them runs any more.")] = False,
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> None:
    """Stop jobs for good."""
    if not refs:
        raise InvalidSpec("name at least one job", "`gpuyard ps` lists the active ones.")
    async with client(yard_dir) as yard:
        jobs, errors = await _cancel_each(yard, refs, wait=wait)
    if as_json:
        terminal.print_json([job_view(job) for job in jobs])
    else:
        for job in jobs:
            terminal.print_data(f"{job.id}  {job.state}")
    if errors:
        raise errors[0]


async def _cancel_each(
    yard: AsyncClient, refs: tuple[str, ...], *, wait: bool
) -> tuple[list[Job], list[GpuyardError]]:
    """Cancel all that can be: one that can't must not save the others."""
    jobs, errors = [], []
    for ref in refs:
        try:
            jobs.append(await yard.cancel(ref, wait=wait))
        except GpuyardError as error:
            errors.append(error)
    return jobs, errors
