"""Which index people know a GPU by; placements name GPUs by UUID."""

from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.job import Job


async def gpu_indexes(yard: AsyncClient, job: Job) -> dict[str, int]:
    """Index of each GPU that the placement names, by UUID; empty where the inventory can't be read."""
    if job.placement is None or not any(slot.gpus for slot in job.placement.slots):
        return {}
    try:
        nodes = await yard.nodes(sample_wait_s=0)
    except GpuyardError:
        return {}
    wanted = {*job.placement.nodes, *(other.node for other in job.placement.rejected)}
    return {gpu.uuid: gpu.index for node in nodes if node.node in wanted for gpu in node.gpus}
