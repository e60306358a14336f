"""The GPUs of a node from one boot to the next: one that stops answering keeps its place.

So positions, links and placements of the others stay valid whatever happens to one GPU, also while the
monitor restarts and the driver numbers the rest anew.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from msgspec.structs import replace

from gpuyard.contracts.hardware import Gpu, Inventory, Link, Nic
from gpuyard_monitor.core.readings import Found


def joined(before: Inventory, found: Found | None) -> Found:
    """What was found, and those of before that were not.

    Args:
        before: an inventory of the same boot.
        found: None if no driver answers.

    """
    if found is None:
        return Found(before.gpus, before.links, before.nics)
    now = {gpu.uuid: gpu for gpu in found.gpus}
    gpus = tuple(_as_seen(gpu, now.get(gpu.uuid)) for gpu in before.gpus)
    gpus = (*gpus, *_newcomers(gpus, found.gpus))
    old, new = _links(before.gpus, before.links), _links(found.gpus, found.links)
    links = tuple(
        replace(new.get(pair) or old.get(pair) or Link(0, 1), a=a, b=b)
        for a, b in combinations(range(len(gpus)), 2)
        for pair in [frozenset({gpus[a].uuid, gpus[b].uuid})]
    )
    return Found(gpus, links, tuple(_nics(before, found, gpus)), found.missing, found.count)


def _as_seen(before: Gpu, now: Gpu | None) -> Gpu:
    """The GPU with its old place; of its NVLinks the most that were ever up."""
    if now is None:
        return before
    return replace(now, index=before.index, nvlinks=_most(before.nvlinks, now.nvlinks))


def _most(a: int | None, b: int | None) -> int | None:
    return max((number for number in (a, b) if number is not None), default=None)


def _newcomers(known: Sequence[Gpu], found: Sequence[Gpu]) -> Iterator[Gpu]:
    uuids, taken = {gpu.uuid for gpu in known}, {gpu.index for gpu in known}
    for gpu in found:
        if gpu.uuid not in uuids:
            index = gpu.index if gpu.index not in taken else max(taken) + 1
            taken.add(index)
            yield replace(gpu, index=index)


def _links(gpus: Sequence[Gpu], links: Sequence[Link]) -> Mapping[frozenset[str], Link]:
    return {frozenset({gpus[link.a].uuid, gpus[link.b].uuid}): link for link in links}


def _nics(before: Inventory, found: Found, gpus: Sequence[Gpu]) -> Iterator[Nic]:
    old = {
        nic.name: dict(zip((gpu.uuid for gpu in before.gpus), nic.levels, strict=False))
        for nic in before.nics
    }
    for nic in found.nics:
        levels = old.get(nic.name, {}) | dict(zip((gpu.uuid for gpu in found.gpus), nic.levels, strict=False))
        yield Nic(nic.name, tuple(levels.get(gpu.uuid) for gpu in gpus))
