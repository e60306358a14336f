"""What a link carries, by its type: GB/s one way, whether peers copy directly, whether switches share it.

Figures are what a copy reaches in published peer-to-peer tests, so that a table value and a probe can be
compared; data sheets promise 5 to 20 % more. NVLink: per link, times the number of links. PCIe: a slot
of 16 lanes, by how far the copy goes. Without peer-to-peer a copy is staged in host memory, where the
level hardly matters. Where the far levels of a generation were never measured, the ratios of generation
4 are used. Every link gets a figure, and its `basis` says how far to trust it.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from gpuyard.contracts.hardware import Basis, Level, Link
from gpuyard.topology.gpu_models import GpuModel, NvLink, Peer

# Measured: two links of P100 35.3; one to three of V100 24.2, 48.3, 68.9; twelve of A100 274; four of
# RTX A6000 52; eighteen of H100 376; eighteen of GB200 747.
NVLINK_GB_S = {
    NvLink.V1: 17.6,
    NvLink.V2: 24.1,
    NvLink.V3: 22.8,
    NvLink.V3_BRIDGE: 13.0,
    NvLink.V4: 20.9,
    NvLink.V5: 41.5,
}

# Measured: K80 and V100 (3), RTX 4090 (4), RTX PRO 6000 (5, NODE).
PCIE_GB_S = {
    3: {
        Level.SAME_BOARD: 12.0,
        Level.SINGLE_SWITCH: 11.5,
        Level.MULTI_SWITCH: 11.0,
        Level.HOST_BRIDGE: 10.5,
        Level.SAME_NODE: 9.6,
        Level.SYSTEM: 9.0,
    },
    4: {
        Level.SAME_BOARD: 26.5,
        Level.SINGLE_SWITCH: 26.3,
        Level.MULTI_SWITCH: 26.0,
        Level.HOST_BRIDGE: 25.8,
        Level.SAME_NODE: 25.5,
        Level.SYSTEM: 21.5,
    },
    5: {
        Level.SAME_BOARD: 58.5,
        Level.SINGLE_SWITCH: 58.0,
        Level.MULTI_SWITCH: 57.5,
        Level.HOST_BRIDGE: 57.0,
        Level.SAME_NODE: 56.5,
        Level.SYSTEM: 47.5,
    },
}

# Copies through host memory. Measured: V100 (3) 9.8 to 11.1, RTX 4090 (4) 18.2 to 20.6, RTX 5090 (5) 38.2
# to 38.9. The rates of near and far pairs overlap, so the figures differ just enough to prefer the near.
STAGED_GB_S = {3: 10.5, 4: 19.6, 5: 38.6}
_STAGED_PART = {Level.SAME_NODE: 0.99, Level.SYSTEM: 0.97}

_TYPICAL_PCIE = 4
_TYPICAL_NVLINK_GB_S = 22.0
# More NVLinks than on any known model can't all end at a peer.
_MOST_NVLINKS = 18
# The largest mesh in which pairs without NVLink still copy directly.
_SMALL_MESH_GPUS = 4


def described(links: Iterable[Link], models: GpuModel | Sequence[GpuModel]) -> tuple[Link, ...]:
    """The same links with `p2p`, `switched`, `gb_s` and `basis`.

    What the driver has already said about `p2p` and `switched` stays. `p2p` stays None where neither
    the driver nor the model tells.

    Args:
        links: all links of one machine.
        models: the model of all its GPUs, or one for each.

    """
    known = tuple(links)
    count = max((link.b for link in known), default=-1) + 1
    each = [models] * count if isinstance(models, GpuModel) else models
    meshed = count > _SMALL_MESH_GPUS and any(link.nvlinks for link in known)
    shared = _switched_gpus(known, each)
    return tuple(
        _described(link, _common(each[link.a], each[link.b]), meshed, bool(shared & {link.a, link.b}))
        for link in known
    )


def overlaid(links: Iterable[Link], pairs: Mapping[tuple[int, int], float]) -> tuple[Link, ...]:
    """The same links with measured GB/s where there are any.

    Args:
        links: links with a < b.
        pairs: GB/s one way by (from, to). Where both directions were measured, the slower one counts.

    """
    return tuple(_overlaid(link, pairs) for link in links)


def _overlaid(link: Link, pairs: Mapping[tuple[int, int], float]) -> Link:
    ways = [pairs[way] for way in ((link.a, link.b), (link.b, link.a)) if way in pairs]
    return replace(link, gb_s=min(ways), basis=Basis.MEASURED) if ways else link


def _described(link: Link, model: GpuModel, meshed: bool, shared: bool) -> Link:
    p2p = _p2p(link, model, meshed) if link.p2p is None else link.p2p
    # Without P2P the copy goes through host memory, whatever links there are.
    direct = link.nvlinks and p2p is not False
    gb_s, basis = _nvlink_rate(link, model) if direct else _pcie_rate(link, model, p2p)
    switched = bool(link.nvlinks) and (link.switched or shared)
    return replace(link, p2p=p2p, switched=switched, gb_s=gb_s, basis=basis)


def _common(a: GpuModel, b: GpuModel) -> GpuModel:
    """What two GPUs have in common. Drivers refuse direct PCIe copies between different models."""
    if a == b:
        return a
    pcie = min(a.pcie, b.pcie) if a.pcie and b.pcie else None
    return GpuModel("", nvlink=a.nvlink if a.nvlink is b.nvlink else None, pcie=pcie, peer=Peer.NVLINK)


def _switched_gpus(links: Sequence[Link], models: Sequence[GpuModel]) -> set[int]:
    """GPUs that show more NVLinks to their peers than they have: a switch lets each peer see them all."""
    totals = dict.fromkeys(range(len(models)), 0)
    for link in links:
        totals[link.a] += link.nvlinks
        totals[link.b] += link.nvlinks
    return {gpu for gpu, total in totals.items() if total > (models[gpu].nvlinks or _MOST_NVLINKS)}


def _p2p(link: Link, model: GpuModel, meshed: bool) -> bool | None:
    if link.nvlinks:
        return True
    if model.peer is Peer.SOCKET:
        return not meshed and link.level not in (Level.SYSTEM, None)
    return None if model.peer is None else model.peer is Peer.ANY


def _nvlink_rate(link: Link, model: GpuModel) -> tuple[float, Basis]:
    if model.nvlink:
        return round(link.nvlinks * NVLINK_GB_S[model.nvlink], 1), Basis.MODEL
    return link.nvlinks * _TYPICAL_NVLINK_GB_S, Basis.TYPICAL


def _pcie_rate(link: Link, model: GpuModel, p2p: bool | None) -> tuple[float, Basis]:
    """A level that nobody reported is taken for the farthest."""
    level = link.level or Level.SYSTEM
    basis = Basis.MODEL if model.pcie and link.level else Basis.TYPICAL
    pcie = model.pcie or _TYPICAL_PCIE
    if level is Level.SYSTEM and model.socket_gb_s:
        return model.socket_gb_s, basis
    if p2p is False:
        return round(STAGED_GB_S[pcie] * _STAGED_PART.get(level, 1.0), 1), basis
    return PCIE_GB_S[pcie][level], basis
