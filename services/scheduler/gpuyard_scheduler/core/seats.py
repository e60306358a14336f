"""From the GPUs that were chosen to the placement that is written down."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from gpuyard.contracts.placement import Alternative, PlacedLink, Placement, Slot
from gpuyard.topology.choice import Choice
from gpuyard.topology.rejection import RejectedSet
from gpuyard_scheduler.core.ring_order import seat_order
from gpuyard_scheduler.core.share import Share

_LINKS_SHOWN = 128


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
    order = seat_order(share.node.shape, share.choice, tuple(rank.gpus for rank in share.ranks))
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
