"""`gpuyard run`: submit a job, follow it, exit with its code."""

import asyncio
import shlex
from contextlib import aclosing

from gpuyard.cli import terminal, wanted, words
from gpuyard.cli.loglines import JsonPrinter, LinePrinter
from gpuyard.cli.phases import Phases
from gpuyard.cli.places import gpu_indexes
from gpuyard.cli.session import AsJson, YardDir, client
from gpuyard.cli.submit import NO_OPTIONS
from gpuyard.cli.views import job_view
from gpuyard.cli.wanted import JobOptions
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.job import Job


async def run(
    *command: str, options: JobOptions = NO_OPTIONS, as_json: AsJson = False, yard_dir: YardDir = None
) -> int:
    """Run a command as a job, follow it, and exit with its code."""
    spec, workdir = wanted.job(command, options)
    async with client(yard_dir) as yard:
        job = await yard.submit(spec, workdir=workdir)
        try:
            last = await _follow(yard, job, as_json=as_json)
        except BaseException:  # whatever ends the following, Ctrl-C first of all: the job goes on
            _say_detached(job, yard_dir)
            raise
    return words.exit_code(last)


async def _follow(yard: AsyncClient, job: Job, *, as_json: bool) -> Job:
    """Show phases and output side by side; return the job once it has ended."""
    phases = Phases()
    async with asyncio.TaskGroup() as tasks:
        phase = tasks.create_task(_show_phases(yard, job, phases, as_json=as_json))
        tasks.create_task(_print_lines(yard, job, phases, as_json=as_json))
    last = phase.result()
    await _show(yard, last, phases, as_json=as_json)
    return last


async def _show_phases(yard: AsyncClient, job: Job, phases: Phases, *, as_json: bool) -> Job:
    """Show all phases but the last, which comes after all output."""
    last = job
    async with aclosing(yard.watch(job)) as changes:
        async for last in changes:
            if not last.state.is_final:
                await _show(yard, last, phases, as_json=as_json)
    return last


async def _show(yard: AsyncClient, job: Job, phases: Phases, *, as_json: bool) -> None:
    if as_json:
        terminal.print_json(job_view(job))
    else:
        phases.show(job, await gpu_indexes(yard, job))


async def _print_lines(yard: AsyncClient, job: Job, phases: Phases, *, as_json: bool) -> None:
    printer = JsonPrinter() if as_json else LinePrinter(prefix=job.spec.rank_count > 1)

    def notice(text: str) -> None:
        phases.wipe()
        terminal.narrate(text)

    async with aclosing(yard.logs(job, follow=True, notice=notice)) as lines:
        async for line in lines:
            phases.wipe()
            printer.print((line,))


def _say_detached(job: Job, yard_dir: str | None) -> None:
    where = f" --dir {shlex.quote(yard_dir)}" if yard_dir else ""
    terminal.narrate(
        f"\n{job.id} goes on without this terminal. "
        f"Come back with `gpuyard logs -f {job.id}{where}`, stop it with `gpuyard cancel {job.id}{where}`."
    )
