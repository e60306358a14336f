"""What can never fit is refused at once, naming the nearest shape that fits."""

from gpuyard.contracts.errors import Failure
from gpuyard.contracts.job import JobSpec
from gpuyard_scheduler.core.cluster import Cluster

_MOST_RANKS = 4096


def refusal(spec: JobSpec, cluster: Cluster) -> Failure | None:
    """Why the job can never run on the nodes known, dead or alive; None if it can or nothing is known."""
    if spec.rank_count > _MOST_RANKS:
        return Failure(
            "refused",
            f"a gang of {spec.rank_count} ranks; at most {_MOST_RANKS} are allowed",
            "Give each rank more GPUs.",
        )
    sizes = [len(node.gpus) for node in cluster.nodes.values() if node.inventory]
    if not sizes:
        return None
    widest = max(task.gpus_per_rank for task in spec.tasks)
    if widest > max(sizes):
        return Failure(
            "refused",
            f"a rank wants {widest} GPUs of one node; the largest node has {max(sizes)}",
            f"Ask for at most {max(sizes)} GPUs per rank."
            if max(sizes)
            else "No node has GPUs: ask for none.",
            details={"largest_node_gpus": str(max(sizes))},
        )
    fits = _most_gpus(spec, sizes)
    if spec.gpu_count > fits:
        return Failure(
            "refused",
            f"the job wants {spec.gpu_count} GPUs at once; all nodes together can give it {fits}",
            f"Ask for at most {fits} GPUs.",
            details={"most_gpus": str(fits)},
        )
    return None


def _most_gpus(spec: JobSpec, sizes: list[int]) -> int:
    """GPUs that ranks as wide as the job's could use on an empty cluster."""
    width = min((task.gpus_per_rank for task in spec.tasks if task.gpus), default=0)
    return sum(size - size % width for size in sizes) if width else 0
