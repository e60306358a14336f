"""Which jobs are meant: by name, or by label."""

import difflib

from gpuyard.cli import wanted, words
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.errors import InvalidSpec, NotFound
from gpuyard.contracts.job import Job

MOST_AT_ONCE = 64


async def find_jobs(yard: AsyncClient, refs: tuple[str, ...], labels: tuple[str, ...]) -> list[Job]:
    """The jobs, each once; those with all of these labels oldest first.

    Raises:
        NotFound: no such job; the nearest is named.
        InvalidSpec: more than can be read side by side.

    """
    found = await _labelled(yard, labels) if labels else [await find_job(yard, ref) for ref in refs]
    jobs = list({job.id: job for job in found}.values())
    if len(jobs) > MOST_AT_ONCE:
        raise InvalidSpec(
            f"{len(jobs)} jobs are meant; at most {MOST_AT_ONCE} can be read side by side",
            "Narrow it by another --label, or search with `gpuyard logs --all --grep`.",
        )
    return jobs


async def find_job(yard: AsyncClient, ref: str) -> Job:
    """The job; if there is none, the error names the nearest."""
    try:
        return await yard.get(ref)
    except NotFound as error:
        known = {name: None for job in await yard.list() for name in (job.id, job.spec.name)}
        near = difflib.get_close_matches(ref, known, n=1, cutoff=0.6)
        if not near:
            raise
        raise NotFound(error.message, f"Did you mean `{near[0]}`?", **error.details) from error


async def _labelled(yard: AsyncClient, labels: tuple[str, ...]) -> list[Job]:
    pairs = wanted.pairs(labels, "--label")
    jobs = await yard.list()
    found = [job for job in reversed(jobs) if pairs.items() <= job.spec.labels.items()]
    if not found:
        raise NotFound(f"no job has {_named(pairs)}", _nearest_label(pairs, jobs))
    return found


def _nearest_label(pairs: dict[str, str], jobs: list[Job]) -> str:
    known = {f"{key}={value}": None for job in jobs for key, value in job.spec.labels.items()}
    for key, value in pairs.items():
        near = difflib.get_close_matches(f"{key}={value}", known, n=1, cutoff=0.6)
        if near and near[0] != f"{key}={value}":
            return f"Did you mean `--label {words.harmless(near[0])}`?"
    return "`gpuyard show JOB` names a job's labels."


def _named(pairs: dict[str, str]) -> str:
    return " and ".join(f"{key}={value}" for key, value in pairs.items())
