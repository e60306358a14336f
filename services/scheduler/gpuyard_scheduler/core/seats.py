"""From GPUs to seats: which rank of a node sits on which of the GPUs that were chosen for all.

Consecutive local ranks are neighbours on the best ring, and a rank with several GPUs gets consecutive ones:
a program that counts its ranks round then runs over the fast links without knowing them.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, combinations, pairwise

from gpuyard.contracts.placement import Alternative, PlacedLink, Placement, Slot
from gpuyard.topology.choice import Choice, RejectedSet
from gpuyard.topology.shape import Shape
from gpuyard_scheduler.core.share import Share

_LINKS_SHOWN = 128
_STEPS = 20_000


def seated(shares: Sequence[Share], rejected: tuple[Alternative, ...] = ()) -> Placement:
    """Seat every rank. What the links are worth as a whole is told of gangs on one node only."""
    slots = [slot for number, share in enumerate(shares) for slot in _slots(number, share)]
    links = [link for share in shares for link in _links(share)]
    bottleneck_gb_s, sum_gb_s = figures(shares[0].choice) if len(shares) == 1 else (None, None)
    return Placement(
        slots=tuple(sorted(slots, key=lambda slot: slot.rank)),
        links=tuple(links[:_LINKS_SHOWN]),
        bottleneck_gb_s=bottleneck_gb_s,
        sum_gb_s=sum_gb_s,
        rejected=rejected,
    )


def figures(found: Choice | RejectedSet) -> tuple[float | None, float | None]:
    """Bottleneck and sum in GB/s, rounded; None where links of unknown bandwidth left them at 0."""
    return round(found.bottleneck_gb_s or 0.0, 1) or None, round(found.sum_gb_s or 0.0, 1) or None


def _slots(node_rank: int, share: Share) -> Iterator[Slot]:
    sizes = tuple(rank.gpus for rank in share.ranks)
    order = _seats(share.node.shape, share.choice.gpus, share.choice.bottleneck_gb_s or 0.0, sizes)
    uuids = iter([share.node.gpus[position].uuid for position in order])
    for local_rank, rank in enumerate(share.ranks):
        gpus = tuple(next(uuids) for _ in range(rank.gpus))
        yield Slot(rank.rank, rank.task, share.node.id, local_rank, node_rank, gpus)


def _links(share: Share) -> Iterator[PlacedLink]:
    inventory = share.node.inventory
    known = {(link.a, link.b): link for link in inventory.links} if inventory else {}
    for pair in combinations(share.choice.gpus, 2):
        if link := known.get(pair):
            a, b = (share.node.gpus[position].uuid for position in pair)
            yield PlacedLink(share.node.id, a, b, link.label, link.gb_s)


@lru_cache(maxsize=4096)
def _seats(shape: Shape, gpus: tuple[int, ...], least_gb_s: float, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The GPUs along the ring, begun where ranks with several GPUs get the most bandwidth of their own."""
    ring = ring_order(shape, gpus, least_gb_s)
    if max(sizes, default=0) < 2:
        return ring
    cuts = [*accumulate(sizes, initial=0)]
    turns = [ring[start:] + ring[:start] for start in range(len(ring))]
    return max(turns, key=lambda turn: sum(_inside(shape, turn[a:b]) for a, b in pairwise(cuts)))


def _inside(shape: Shape, gpus: tuple[int, ...]) -> float:
    return sum(shape.gb_s[a][b] for a, b in combinations(gpus, 2))


def ring_order(shape: Shape, gpus: tuple[int, ...], least_gb_s: float) -> tuple[int, ...]:
    """The GPUs along a ring whose links have at least this bandwidth, the fastest link first at each step.

    Depth first, so it is found nearly at once where links are plenty or few. Ascending where the search gets
    lost: the order is a kindness, not a promise.
    """
    if len(gpus) < 3:
        return gpus
    peers = {
        a: sorted(
            (b for b in gpus if b != a and shape.gb_s[a][b] >= least_gb_s),
            key=lambda b: (-shape.gb_s[a][b], b),
        )
        for a in gpus
    }
    path, untried = [gpus[0]], [iter(peers[gpus[0]])]
    for _ in range(_STEPS):
        found = next((peer for peer in untried[-1] if peer not in path), None)
        if found is None:
            path.pop()
            untried.pop()
            if not path:
                break
            continue
        path.append(found)
        untried.append(iter(peers[found]))
        if len(path) == len(gpus) and path[0] in peers[found]:
            return tuple(path)
    return gpus
