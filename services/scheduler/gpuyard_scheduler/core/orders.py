"""Orders to the nodes of a gang. Giving one again is harmless: they are rebuilt from the record at will."""

from collections.abc import Iterable, Iterator

from gpuyard.contracts.job import ExitCause, Job
from gpuyard.contracts.order import Prepare, Start, Stop
from gpuyard.contracts.placement import Placement


def prepare(job: Job, placement: Placement, term: int) -> Iterator[Prepare]:
    """One order for each node; a gang on one node starts there without asking back."""
    nodes = placement.nodes
    for node in nodes:
        yield Prepare(
            node=node,
            job=job.id,
            attempt=job.attempt,
            term=term,
            slots=placement.on(node),
            tasks=job.spec.tasks,
            world_size=job.spec.rank_count,
            workdir=job.spec.workdir,
            start_when_ready=len(nodes) == 1,
            grace_s=job.spec.grace_s,
            expires_at_s=(job.placed_at_s or 0.0) + job.spec.launch_deadline_s,
        )


def start(job: Job, nodes: Iterable[str], term: int, master: tuple[str, int]) -> Iterator[Start]:
    for node in nodes:
        yield Start(node, job.id, job.attempt, term, *master)


def stop(job: Job, nodes: Iterable[str], term: int, cause: ExitCause) -> Iterator[Stop]:
    for node in nodes:
        yield Stop(node, job.id, job.attempt, term, cause, job.spec.grace_s)
