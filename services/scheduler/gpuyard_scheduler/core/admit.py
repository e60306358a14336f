"""What can never run is refused at once, naming the nearest shape that fits."""

import difflib
from collections.abc import Sequence

from gpuyard.contracts.codec import MAX_MESSAGE_BYTES, encode
from gpuyard.contracts.errors import Failure, GpuyardError
from gpuyard.contracts.job import JobSpec, TaskSpec
from gpuyard_scheduler.core.cluster import Cluster
from gpuyard_scheduler.core.names import some_of
from gpuyard_scheduler.core.node import Node
from gpuyard_scheduler.core.packing import fits

_RECORD_BYTES = 150_000
"""Most of a record beside its spec and its slots: links, rejected sets, events, reasons."""
_SLOT_BYTES = 160
"""Most of a slot beside the names of its task and its GPUs."""
_GPU_BYTES = 130


def refusal(spec: JobSpec, cluster: Cluster) -> Failure | None:
    """Why the job can never run; None if it can, or if no node is known yet."""
    return _too_long(spec) or unknown_node(spec, cluster) or never_fits(spec, cluster)


def _too_long(spec: JobSpec) -> Failure | None:
    """A job whose record would not fit a message must not be accepted: it could never be written down."""
    try:
        size = len(encode(spec))
    except GpuyardError as error:
        return error.to_failure()
    size += _RECORD_BYTES + sum(_slots_bytes(task) for task in spec.tasks)
    if size <= MAX_MESSAGE_BYTES:
        return None
    return Failure(
        "refused",
        f"the job's record would have up to {size:,} bytes; at most {MAX_MESSAGE_BYTES:,} fit a message",
        "Ask for fewer ranks, or shorten command and environment; ship files with the working directory.",
    )


def _slots_bytes(task: TaskSpec) -> int:
    return task.rank_count * (_SLOT_BYTES + len(task.name)) + task.gpus * _GPU_BYTES


def unknown_node(spec: JobSpec, cluster: Cluster) -> Failure | None:
    """The job names a node that has never been heard of, while others have."""
    unknown = next((name for name in spec.nodes if name not in cluster.nodes), None)
    if unknown is None or not cluster.nodes:
        return None
    near = difflib.get_close_matches(unknown, cluster.nodes, n=1, cutoff=0.0)[0]
    return Failure(
        "refused",
        f"no node is called {unknown}",
        f"Did you mean `{near}`? `gpuyard nodes` shows them all.",
        details={"nearest": near},
    )


def never_fits(spec: JobSpec, cluster: Cluster) -> Failure | None:
    """What is wrong with the job's shape; GPUs that are not well may come back, so they count."""
    best = cluster.at_best()
    nodes = best.usable(spec.nodes)
    if not nodes or fits(spec, best):
        return None
    return _wide_rank(spec, nodes) or _many_gpus(spec, nodes) or _many_ranks(spec, nodes) or _mixture()


def _wide_rank(spec: JobSpec, nodes: Sequence[Node]) -> Failure | None:
    widest = max(task.gpus_per_rank for task in spec.tasks)
    largest = max(len(node.gpus) for node in nodes)
    if widest <= largest:
        return None
    which = f"the largest of {some_of(spec.nodes)}" if spec.nodes else "the largest node"
    return Failure(
        "refused",
        f"a rank wants {widest} GPUs of one node; {which} has {largest}",
        f"Ask for at most {largest} GPUs per rank." if largest else "No node has GPUs: ask for none.",
        details={"largest_node_gpus": str(largest)},
    )


def _many_gpus(spec: JobSpec, nodes: Sequence[Node]) -> Failure | None:
    """GPUs that ranks as wide as the job's narrowest could use on an empty cluster are not enough."""
    width = min((task.gpus_per_rank for task in spec.tasks if task.gpus), default=0)
    most = sum(len(node.gpus) // width * width for node in nodes) if width else 0
    if spec.gpu_count <= most:
        return None
    return Failure(
        "refused",
        f"the job wants {spec.gpu_count} GPUs at once; {_all(spec)} can give it {most}",
        f"Ask for at most {most} GPUs.",
        details={"most_gpus": str(most)},
    )


def _many_ranks(spec: JobSpec, nodes: Sequence[Node]) -> Failure | None:
    wanted = sum(task.rank_count for task in spec.tasks if not task.gpus)
    most = sum(node.room_for_cpu_ranks() for node in nodes)
    if wanted <= most:
        return None
    return Failure(
        "refused",
        f"the job has {wanted} ranks without GPUs; {_all(spec)} can take {most}",
        f"Ask for at most {most} of them.",
        details={"most_ranks": str(most)},
    )


def _all(spec: JobSpec) -> str:
    return f"{some_of(spec.nodes)} together" if spec.nodes else "all nodes together"


def _mixture() -> Failure:
    return Failure(
        "refused",
        "the ranks can't all be placed at once, even on empty nodes: their shapes don't fit together",
        "Give the wide ranks fewer GPUs, or ask for fewer of them.",
    )
