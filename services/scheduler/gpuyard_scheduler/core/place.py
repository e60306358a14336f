"""Where a whole gang goes: every rank gets its place, or none does.

One node is preferred over several, as links inside a node are faster. Which GPUs of a node are taken is
decided by `gpuyard.topology.choice`, once for all nodes of equal state.
"""

from gpuyard.contracts.job import JobSpec, Reason
from gpuyard.contracts.placement import Placement
from gpuyard_scheduler.core.cluster import Cluster, alike
from gpuyard_scheduler.core.option import options
from gpuyard_scheduler.core.packing import over_several
from gpuyard_scheduler.core.reasons import why_not
from gpuyard_scheduler.core.rejected import rejected
from gpuyard_scheduler.core.seats import seated
from gpuyard_scheduler.core.share import Share, ranks_of


def place(spec: JobSpec, cluster: Cluster) -> Placement | Reason:
    """Place the gang on what is free now, or say why it does not fit."""
    ranks, nodes = ranks_of(spec), cluster.usable(spec.nodes)
    if found := options(ranks, alike(nodes)):
        best, *others = found
        return seated([Share(best.node, tuple(ranks), best.choice)], rejected(best, others))
    if shares := over_several(ranks, nodes):
        return seated(shares)
    return why_not(spec, cluster)
