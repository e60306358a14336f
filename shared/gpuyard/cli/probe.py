"""`gpuyard probe`: measure the links of a node, so that placement goes by figures and not by a table."""

import asyncio
import sys
from contextlib import aclosing, suppress
from typing import Annotated, Literal

from cyclopts import Parameter

from gpuyard.cli import terminal, words
from gpuyard.cli.phases import Phases
from gpuyard.cli.places import gpu_indexes
from gpuyard.cli.probe_target import Target, Wish, target
from gpuyard.cli.probe_words import ProbeView, Wording
from gpuyard.cli.session import AsJson, YardDir, client
from gpuyard.client.aio import AsyncClient
from gpuyard.client.probe import (
    Finding,
    Findings,
    Group,
    Pair,
    figures_of,
    parse_line,
    probe_job,
    shipped_program,
)
from gpuyard.contracts.errors import GpuyardError, Refused
from gpuyard.contracts.job import Job, JobState

UNSOUND, TIMED_OUT = 1, 124
STORE_TIMEOUT_S = 30.0


class ProbeFailed(GpuyardError):
    """The measuring job did not get to its end."""

    code = "probe_failed"
    exit_code = 1


async def probe(
    node: Annotated[str | None, Parameter(name="NODE", help="The node; the only one by default.")] = None,
    /,
    *,
    gpus: Annotated[int | None, Parameter(help="So many GPUs; by default all in service.")] = None,
    quick: Annotated[bool, Parameter(negative=(), help="One size and few repeats.")] = False,
    no_wait: Annotated[
        bool, Parameter(negative=(), help="Take the GPUs that are free now, or give up.")
    ] = False,
    device: Annotated[Literal["cuda", "cpu"], Parameter(show=False)] = "cuda",
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> int:
    """Measure the links between a node's GPUs."""
    wish = Wish(node, gpus, no_wait, device)
    async with client(yard_dir) as yard:
        chosen = target(await yard.nodes(), wish)
        narrate_holders(chosen)
        spec = probe_job(chosen.node.node, chosen.gpus, is_quick=quick, device=device)
        async with shipped_program() as workdir:
            job = await yard.submit(spec, workdir=workdir)
        wording, findings = Wording(chosen.node), Findings()
        job = await _measured(yard, job, findings, wording, no_wait=no_wait)
        is_stored = await _store(yard, chosen.node.node, job, findings)
    view = _view(chosen.node.node, job, findings, wording, is_stored=is_stored)
    if as_json:
        terminal.print_json(view)
    else:
        _print(findings, wording)
    return _exit_code(view)


def narrate_holders(chosen: Target) -> None:
    """Say whom the probe will have to wait for."""
    free = sum(chosen.node.has_free(gpu) for gpu in chosen.node.gpus)
    if chosen.holders and free < chosen.gpus:
        terminal.narrate(
            f"{words.count(free, 'GPU')} of {chosen.node.node} free, {chosen.gpus} needed: waiting for "
            f"{', '.join(chosen.holders)}. Ctrl-C gives up; --gpus asks for fewer."
        )


async def _measured(
    yard: AsyncClient, job: Job, findings: Findings, wording: Wording, *, no_wait: bool
) -> Job:
    """Follow the job to its end. Whoever leaves before cancels it: half a probe is of no use."""
    try:
        async with asyncio.TaskGroup() as tasks:
            phases = Phases()
            following = tasks.create_task(_follow_states(yard, job, phases, no_wait=no_wait))
            tasks.create_task(_follow_lines(yard, job, phases, findings, wording))
    except BaseException:  # Ctrl-C first of all
        await _cancel(yard, job)
        raise
    _check(following.result(), findings)
    return following.result()


async def _follow_states(yard: AsyncClient, job: Job, phases: Phases, *, no_wait: bool) -> Job:
    last = job
    async with aclosing(yard.watch(job)) as changes:
        async for last in changes:
            if no_wait and last.state is JobState.QUEUED and last.reason:
                raise Refused(f"it would have to wait: {last.reason.message}", last.reason.hint)
            if not last.state.is_final:
                phases.show(last, await gpu_indexes(yard, last))
    return last


async def _follow_lines(
    yard: AsyncClient, job: Job, phases: Phases, findings: Findings, wording: Wording
) -> None:
    async with aclosing(yard.logs(job, follow=True, notice=phases.line.note)) as lines:
        async for line in lines:
            finding = parse_line(line)
            if finding is None:
                phases.line.note(terminal.harmless(line.text, keep_colour=False))
            else:
                findings.take(finding)
                _show(finding, phases, findings, wording)


def _show(finding: Finding, phases: Phases, findings: Findings, wording: Wording) -> None:
    match finding:
        case Pair():
            progress = f"[{len(findings.pairs)}/{findings.plan.pair_count}] {wording.pair(finding)}"
        case Group():
            progress = wording.group(finding)
        case _:
            return
    text = progress if finding.is_sound else terminal.paint(progress, "red", sys.stderr)
    phases.line.show(text, keep=not finding.is_sound)


async def _cancel(yard: AsyncClient, job: Job) -> None:
    with suppress(GpuyardError):  # it has ended, or the yard is gone: what was raised before is the news
        await yard.cancel(job)
        terminal.narrate(f"\ncancelled {job.id}")


def _check(job: Job, findings: Findings) -> None:
    """Raise if there is nothing to show."""
    if findings.unfit:
        raise Refused(findings.unfit.message, findings.unfit.hint, job=job.id)
    if job.state is not JobState.SUCCEEDED or not findings.is_done:
        why = words.ending(job) or "it printed no findings"
        raise ProbeFailed(f"{job.id} {job.state}: {why}", f"See `gpuyard logs {job.id}`.", job=job.id)


async def _store(yard: AsyncClient, node: str, job: Job, findings: Findings) -> bool:
    figures = figures_of(node, job, findings)
    if not figures.pairs and not figures.groups:
        return False
    try:
        await yard.store_figures(figures, timeout_s=STORE_TIMEOUT_S)
    except TimeoutError as error:
        terminal.narrate(f"{error}. It will when it is back, unless it refuses them: see its log.")
        return False
    return True


def _view(node: str, job: Job, findings: Findings, wording: Wording, *, is_stored: bool) -> ProbeView:
    assert job.ended_at_s is not None, "it has ended"
    return ProbeView(
        node,
        job.id,
        job.ended_at_s,
        tuple(map(wording.pair_view, findings.pairs)),
        tuple(map(wording.group_view, findings.groups)),
        tuple(wording.remarks(findings)),
        findings.is_sound,
        is_stored,
    )


def _print(findings: Findings, wording: Wording) -> None:
    terminal.print_data("GB/s from row to column, measured/expected\n" + wording.matrix(findings))
    for group in findings.groups:
        terminal.print_data(wording.group(group))
    for remark in wording.remarks(findings):
        terminal.print_data(terminal.paint(remark, "yellow", sys.stdout))


def _exit_code(view: ProbeView) -> int:
    if not view.is_sound:
        return UNSOUND
    return 0 if view.is_stored else TIMED_OUT
