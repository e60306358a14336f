"""Why a gang has no place now, in words for people."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

from gpuyard.contracts.hardware import Gpu, Health
from gpuyard.contracts.job import JobSpec, Reason
from gpuyard_scheduler.core.cluster import Cluster
from gpuyard_scheduler.core.names import some_of
from gpuyard_scheduler.core.node import Node
from gpuyard_scheduler.core.packing import fits

_HEALTH = {
    Health.OUT: "out of service",
    Health.FOREIGN: "used by processes nobody scheduled",
    Health.UNKNOWN: "of unknown health",
}
_NAMED = 3
_LONGEST = 120


def why_not(spec: JobSpec, cluster: Cluster) -> Reason:
    """Why the gang does not fit on what is free now."""
    nodes = cluster.usable(spec.nodes)
    if not nodes:
        return Reason("no_nodes", _silent(spec, cluster), "`gpuyard nodes` shows them.")
    if not spec.gpu_count:
        where = f"{some_of(spec.nodes)}: full" if spec.nodes else "every node is full"
        return Reason("waiting_for_room", f"{where} of ranks without GPUs", "Wait for some to end.")
    if fits(spec, cluster.supposing(all_free=False)):
        return unwell(spec, cluster, "are free")
    free = sum(node.free_count for node in nodes)
    where = f"on {some_of(spec.nodes)}" if spec.nodes else "where they could be used"
    message = f"needs {spec.gpu_count} GPUs at once; {free} are free {where}"
    return Reason("waiting_for_gpus", message, "It starts when enough jobs have ended.")


def unwell(spec: JobSpec, cluster: Cluster, counted_as: str) -> Reason:
    """GPUs that nobody has can't be used: `8 are free, 2 of them out of service: n1 GPU 3 (...)`."""
    nodes = cluster.usable(spec.nodes)
    found = [(node, gpu) for node in nodes for gpu in node.unwell()]
    kinds = Counter(_HEALTH.get(gpu.health, gpu.health) for _, gpu in found)
    ill = ", ".join(f"{number} of them {kind}" for kind, number in kinds.items())
    number = sum(node.free_count for node in nodes) + len(found)
    message = f"needs {spec.gpu_count} GPUs at once; {number} {counted_as}, {ill}: {_named(found)}"
    return Reason("waiting_for_health", message, "`gpuyard nodes` says what clears it.")


def _named(found: Sequence[tuple[Node, Gpu]]) -> str:
    shown = "; ".join(
        f"{node.id} GPU {gpu.index} ({(gpu.health_reason or gpu.health)[:_LONGEST]})"
        for node, gpu in islice(found, _NAMED)
    )
    return shown if len(found) <= _NAMED else f"{shown}; and {len(found) - _NAMED} more"


def _silent(spec: JobSpec, cluster: Cluster) -> str:
    if spec.nodes:
        return f"{some_of(spec.nodes)}: no answer from where it may run"
    known = len(cluster.nodes)
    return f"none of the {known} known nodes answers" if known else "no node has joined yet"
