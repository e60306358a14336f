"""Measured bandwidths: whether they can be true of this node, and how they enter and stay in its inventory.

A link over which payloads arrived wrong carries nothing that anybody can use: it counts as one of 0 GB/s
without peer-to-peer copies, until a later probe finds it sound.

The inventory is their only memory. So the one before hands them on to the next: for each pair of GPUs whose
link is still of the same kind, between the same models.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.figures import Figures, PairFigure
from gpuyard.contracts.hardware import Basis, Inventory, Link
from gpuyard.topology.gpu_models import model_in
from gpuyard.topology.link_speed import described, overlaid

_MOST_TIMES_EXPECTED = 4.0
"""A copy that seems so much faster than the link's kind allows was not measured, but miscounted."""
_MOST_AHEAD_S = 3600.0
_MOST_NAMED = 4

_Pair = frozenset[str]


def check(figures: Figures, inventory: Inventory, now_s: float) -> None:
    """Refuse what can't be true of this node.

    Raises:
        InvalidSpec: another node's figures, GPUs that are not here, a rate that no such link has, or a
            time that is still to come.

    """
    if figures.node != inventory.node:
        raise InvalidSpec(f"figures of {figures.node} came to {inventory.node}")
    if figures.at_s > now_s + _MOST_AHEAD_S:
        raise InvalidSpec("the figures were measured in the future", "Set the clock of the probe's machine.")
    models = [model_in(gpu.model) for gpu in inventory.gpus]
    # Whether peers copy was overruled where a link corrupts; a probe may find that it is sound again.
    links = [replace(link, p2p=None) if _corrupts(link) else link for link in inventory.links]
    expected = _links_by_pair(replace(inventory, links=described(links, models)))
    for figure in figures.pairs:
        _check_pair(figure, expected.get(frozenset({figure.a, figure.b})), inventory.node)
    if any(group.gpus > len(inventory.gpus) for group in figures.groups):
        raise InvalidSpec(f"an all-reduce over more GPUs than the {len(inventory.gpus)} of {inventory.node}")


def with_figures(inventory: Inventory, figures: Figures) -> Inventory:
    """The inventory with these figures. Older ones than it has change nothing."""
    if inventory.probed_at_s is not None and figures.at_s < inventory.probed_at_s:
        return inventory
    rates = {frozenset({pair.a, pair.b}): pair.gb_s if pair.sound else 0.0 for pair in figures.pairs}
    groups = dict(inventory.allreduce_gb_s) | {group.gpus: group.gb_s for group in figures.groups}
    return replace(
        inventory,
        links=_measured(inventory, rates),
        allreduce_gb_s=tuple(sorted(groups.items())),
        probed_at_s=figures.at_s,
    )


def handed_on(before: Inventory, inventory: Inventory) -> Inventory:
    """The inventory with what was measured before, as far as the hardware is still the same."""
    if before.probed_at_s is None:
        return inventory
    had, has = _links_by_pair(before), _links_by_pair(inventory)
    models = dict(_models(before)).items() & dict(_models(inventory)).items()
    known = {uuid for uuid, _ in models}
    same = {pair for pair, link in has.items() if pair <= known and _is_same(had.get(pair), link)}
    rates = {pair: link.gb_s for pair, link in had.items() if pair in same and link.basis is Basis.MEASURED}
    if not same:
        return inventory
    return replace(
        inventory,
        links=_measured(inventory, rates),
        allreduce_gb_s=before.allreduce_gb_s if had.keys() == has.keys() == same else (),
        probed_at_s=before.probed_at_s,
    )


def advice(inventory: Inventory) -> str:
    """What the operator must do about links that corrupt; empty if there is none."""
    gpus = inventory.gpus
    pairs = [f"{gpus[link.a].index}-{gpus[link.b].index}" for link in inventory.links if _corrupts(link)]
    if not pairs:
        return ""
    told = ", ".join(pairs[:_MOST_NAMED])
    more = f" and {len(pairs) - _MOST_NAMED} more pairs" if len(pairs) > _MOST_NAMED else ""
    return (
        f"Copies between GPUs {told}{more} arrive wrong: switch the IOMMU's translation or ACS off, or look "
        f"at the bridges; then `gpuyard probe {inventory.node}` again."
    )


def _measured(inventory: Inventory, rates: Mapping[_Pair, float | None]) -> tuple[Link, ...]:
    links = overlaid(inventory.links, _by_position(inventory, rates))
    return tuple(replace(link, p2p=False) if _corrupts(link) else link for link in links)


def _corrupts(link: Link) -> bool:
    return link.basis is Basis.MEASURED and link.gb_s == 0.0


def _check_pair(figure: PairFigure, expected: Link | None, node: str) -> None:
    if expected is None:
        raise InvalidSpec(f"{figure.a} and {figure.b} are no two GPUs of {node}")
    # A copy that does not arrive may take no time at all.
    if figure.sound and expected.gb_s and figure.gb_s > _MOST_TIMES_EXPECTED * expected.gb_s:
        raise InvalidSpec(
            f"{figure.gb_s:g} GB/s over {expected.label}, which has about {expected.gb_s:g}: that can't be"
        )


def _is_same(before: Link | None, link: Link) -> bool:
    return before is not None and before.label == link.label


def _models(inventory: Inventory) -> Iterator[tuple[str, str]]:
    return ((gpu.uuid, gpu.model) for gpu in inventory.gpus)


def _links_by_pair(inventory: Inventory) -> Mapping[_Pair, Link]:
    gpus = inventory.gpus
    return {frozenset({gpus[link.a].uuid, gpus[link.b].uuid}): link for link in inventory.links}


def _by_position(inventory: Inventory, rates: Mapping[_Pair, float | None]) -> dict[tuple[int, int], float]:
    gpus = inventory.gpus
    found = {}
    for link in inventory.links:
        rate = rates.get(frozenset({gpus[link.a].uuid, gpus[link.b].uuid}))
        if rate is not None:
            found[link.a, link.b] = rate
    return found
