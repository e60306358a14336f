"""Where a whole gang goes: every rank gets its place, or none does.

One node is preferred over several (links inside a node are faster), the node with the best links first, then
the fullest. Across nodes, those with most room come first, so that few are used; uneven splits are fine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from gpuyard.contracts.job import JobSpec, Reason
from gpuyard.contracts.placement import PlacedLink, Placement, Slot
from gpuyard_scheduler.core.cluster import Cluster, Node
from gpuyard_scheduler.core.links import best_set, bottleneck

_LINKS_SHOWN = 128


@dataclass(frozen=True, slots=True)
class _Rank:
    rank: int
    task: str
    gpus: int


@dataclass(frozen=True, slots=True)
class _Share:
    """What one node does for the gang: these ranks on these GPUs (positions)."""

    node: Node
    ranks: tuple[_Rank, ...]
    gpus: tuple[int, ...]


def place(spec: JobSpec, cluster: Cluster) -> Placement | Reason:
    """Place the gang on what is free now, or say why it does not fit."""
    ranks = _ranks(spec)
    nodes = cluster.usable()
    shares = _on_one_node(ranks, nodes) or _on_several(ranks, nodes)
    return _placement(shares) if shares else _why_not(spec, cluster)


def _ranks(spec: JobSpec) -> list[_Rank]:
    kinds = ((task.name, task.gpus_per_rank) for task in spec.tasks for _ in range(task.rank_count))
    return [_Rank(number, name, gpus) for number, (name, gpus) in enumerate(kinds)]


def _on_one_node(ranks: Sequence[_Rank], nodes: list[Node]) -> list[_Share]:
    gpus = sum(rank.gpus for rank in ranks)
    cpu_ranks = sum(not rank.gpus for rank in ranks)
    shares = [
        _Share(node, tuple(ranks), best_set(node.matrix, node.free(), gpus))
        for node in nodes
        if len(node.free()) >= gpus and node.room_for_cpu_ranks() >= cpu_ranks
    ]
    return [min(shares, key=_quality)] if shares else []


def _quality(share: _Share) -> tuple[int, float, float, int, str]:
    node = share.node
    speed = bottleneck(node.matrix, share.gpus) or 0.0
    # Work without GPUs stays away from nodes that have some.
    crowd = len(node.free()) - len(share.gpus) if share.gpus else len(node.gpus)
    return node.failed_launches, -speed, crowd, -node.room_for_cpu_ranks(), node.id


def _on_several(ranks: Sequence[_Rank], nodes: list[Node]) -> list[_Share]:
    """Fill node after node, ranks that want most GPUs first."""
    waiting = sorted(ranks, key=lambda rank: (-rank.gpus, rank.rank))
    shares: list[_Share] = []
    for node in sorted(nodes, key=_usefulness):
        taken, waiting = _filled(node, waiting)
        if taken:
            chosen = best_set(node.matrix, node.free(), sum(rank.gpus for rank in taken))
            shares.append(_Share(node, tuple(sorted(taken, key=lambda rank: rank.rank)), chosen))
        if not waiting:
            return sorted(shares, key=lambda share: share.ranks[0].rank)
    return []


def _usefulness(node: Node) -> tuple[int, int, str]:
    return node.failed_launches, -len(node.free()), node.id


def _filled(node: Node, waiting: Sequence[_Rank]) -> tuple[list[_Rank], list[_Rank]]:
    """Split the waiting ranks into those this node takes and the rest."""
    gpus, places = len(node.free()), node.room_for_cpu_ranks()
    taken, left = [], []
    for rank in waiting:
        if rank.gpus and rank.gpus <= gpus:
            gpus -= rank.gpus
        elif not rank.gpus and places:
            places -= 1
        else:
            left.append(rank)
            continue
        taken.append(rank)
    return taken, left


def _placement(shares: list[_Share]) -> Placement:
    slots = [slot for number, share in enumerate(shares) for slot in _slots(number, share)]
    speeds = [bottleneck(share.node.matrix, share.gpus) for share in shares]
    known = [speed for speed in speeds if speed is not None]
    links = [link for share in shares for link in _links(share)]
    return Placement(
        slots=tuple(sorted(slots, key=lambda slot: slot.rank)),
        links=tuple(links[:_LINKS_SHOWN]),
        bottleneck_gb_s=min(known) if known and len(shares) == 1 else None,
    )


def _slots(node_rank: int, share: _Share) -> Iterator[Slot]:
    uuids = iter(share.node.gpus[position].uuid for position in share.gpus)
    for local_rank, rank in enumerate(share.ranks):
        gpus = tuple(next(uuids) for _ in range(rank.gpus))
        yield Slot(rank.rank, rank.task, share.node.id, local_rank, node_rank, gpus)


def _links(share: _Share) -> Iterator[PlacedLink]:
    inventory = share.node.inventory
    known = {(link.a, link.b): link for link in inventory.links} if inventory else {}
    for pair in combinations(share.gpus, 2):
        if link := known.get(pair):
            a, b = (share.node.gpus[position].uuid for position in pair)
            yield PlacedLink(share.node.id, a, b, link.label, link.gb_s)


def _why_not(spec: JobSpec, cluster: Cluster) -> Reason:
    nodes = cluster.usable()
    if not nodes:
        known = len(cluster.nodes)
        message = f"none of the {known} known nodes answers" if known else "no node has joined yet"
        return Reason("no_nodes", message, "`gpuyard nodes` shows them.")
    if not spec.gpu_count:
        return Reason("waiting_for_room", "every node is full of ranks without GPUs", "Wait for some to end.")
    free = sum(len(node.free()) for node in nodes)
    message = f"needs {spec.gpu_count} GPUs at once; {free} are free where they could be used"
    return Reason("waiting_for_gpus", message, "It starts when enough jobs have ended.")
