"""A gang over several nodes: few of them, of one rack if possible; uneven splits are fine."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from gpuyard.contracts.job import JobSpec
from gpuyard.topology.choice import choose
from gpuyard_scheduler.core.cluster import Cluster, alike
from gpuyard_scheduler.core.node import Node
from gpuyard_scheduler.core.option import options
from gpuyard_scheduler.core.share import Rank, Share, cpu_ranks_of, gpus_of, ranks_of

Packing = list[tuple[Node, list[Rank]]]


def fits(spec: JobSpec, cluster: Cluster) -> bool:
    """Whether the gang fits on what is free now, on one node or over several."""
    ranks, nodes = ranks_of(spec), cluster.usable(spec.nodes)
    gpus, places = gpus_of(ranks), cpu_ranks_of(ranks)
    on_one = any(
        node.free_count >= gpus and (not places or node.room_for_cpu_ranks() >= places) for node in nodes
    )
    return on_one or bool(_packed(ranks, nodes))


def over_several(ranks: Sequence[Rank], nodes: list[Node]) -> list[Share]:
    """Shares in the order of their first ranks; none if the gang does not fit."""
    racks = _by_rack(nodes)
    pools = [*racks.values(), nodes] if len(racks) > 1 else [nodes]
    packings = [packing for pool in pools if (packing := _packed(ranks, pool))]
    if not packings:
        return []
    packing = _tightened(min(packings, key=_spread), racks)
    return sorted((_share(node, taken) for node, taken in packing), key=lambda share: share.ranks[0].rank)


def _by_rack(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    racks: defaultdict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        racks[node.rack].append(node)
    return racks


def _packed(ranks: Sequence[Rank], nodes: Sequence[Node]) -> Packing:
    """Fill node after node, ranks that want most GPUs first; empty if some are left over."""
    waiting = sorted(ranks, key=lambda rank: (-rank.gpus, rank.rank))
    room = {rack: sum(node.free_count for node in there) for rack, there in _by_rack(nodes).items()}
    if sum(room.values()) < gpus_of(ranks):
        return []
    packing: Packing = []
    for node in sorted(nodes, key=lambda node: (*_usefulness(node), -room[node.rack], node.rack, node.id)):
        taken, waiting = _filled(node, waiting)
        if taken:
            packing.append((node, taken))
        if not waiting:
            return packing
    return []


def _usefulness(node: Node) -> tuple[int, int, float]:
    """The emptiest first, so that few are used; among those the best-linked."""
    state = node.state
    whole = choose(state.shape, state.free, node.free_count)
    speed = whole.bottleneck_gb_s if whole else None
    return node.failed_launches, -node.free_count, -(speed or 0.0)


def _filled(node: Node, waiting: Sequence[Rank]) -> tuple[list[Rank], list[Rank]]:
    """Split the waiting ranks into those this node takes and the rest."""
    gpus, places = node.free_count, node.room_for_cpu_ranks()
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


def _spread(packing: Packing) -> tuple[int, int, int, int]:
    """Less is better: failed launches, nodes, racks, GPUs that stay free beside the gang."""
    nodes = [node for node, _ in packing]
    left = sum(node.free_count - gpus_of(taken) for node, taken in packing)
    return (
        sum(node.failed_launches for node in nodes),
        len(nodes),
        len({node.rack for node in nodes}),
        left,
    )


def _tightened(packing: Packing, racks: dict[str, list[Node]]) -> Packing:
    """The last node is rarely filled: take the one of these racks that suits the rest of the gang best."""
    *filled, (_, rest) = packing
    used = {node.id for node, _ in filled}
    near = [there for rack in {node.rack for node, _ in packing} for there in racks[rack]]
    best = options(rest, alike(node for node in near if node.id not in used))[0]
    return [*filled, (best.node, rest)]


def _share(node: Node, taken: Iterable[Rank]) -> Share:
    ranks = tuple(sorted(taken, key=lambda rank: rank.rank))
    choice = choose(node.state.shape, node.state.free, gpus_of(ranks), node.state.load)
    assert choice, f"{node.id} was to take more GPUs than are free"
    return Share(node, ranks, choice)
