"""One measurement from beginning to end: every pair both ways, then all-reduces over growing groups."""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch.multiprocessing.spawn import ProcessException

from . import allreduce, groups
from .devices import Device, can_peer, found, free_bytes
from .effort import QUICK, SMALL, THOROUGH, Effort
from .pairs import Copy, one_way
from .report import rounded, tell


def measure(kind: str, gpus: Sequence[str], *, is_quick: bool) -> None:
    """Measure and tell.

    Args:
        kind: `cuda`, or `cpu` for the host's memory.
        gpus: UUIDs of this rank's GPUs.
        is_quick: One size and few repeats.

    Raises:
        Unfit: this can't be done here.

    """
    devices = found(kind, gpus)
    tell("plan", gpus=[device.gpu for device in devices], groups=groups.sizes(len(devices)))
    effort = _effort(devices, is_quick=is_quick)
    rates = measure_pairs(devices, effort)
    order = groups.growing(len(devices), rates)
    if kind == "cuda":
        torch.cuda.empty_cache()
    try:
        allreduce.measure([devices[index] for index in order], effort)
    except ProcessException as error:
        tell("failed", message=f"all-reduce failed: {str(error).strip().splitlines()[-1]}")
    tell("done")


def measure_pairs(
    devices: Sequence[Device], effort: Effort, copy: Copy = torch.Tensor.copy_
) -> dict[tuple[int, int], float]:
    """Tell the bandwidth of each pair; returns GB/s by position, 0 where a payload arrived wrong."""
    rates = {}
    for (i, a), (j, b) in combinations(enumerate(devices), 2):
        ways = (one_way(a.at, b.at, effort, copy), one_way(b.at, a.at, effort, copy))
        tell(
            "pair",
            a=a.gpu,
            b=b.gpu,
            gb_s=[rounded(way.gb_s) for way in ways],
            copies=[way.copies for way in ways],
            wrong=[way.wrong for way in ways],
            p2p=can_peer(a.at, b.at),
        )
        rates[i, j] = 0.0 if any(way.wrong for way in ways) else min(way.gb_s for way in ways)
    return rates


def _effort(devices: Sequence[Device], *, is_quick: bool) -> Effort:
    free = free_bytes(devices)
    if free is None:
        return SMALL
    return (QUICK if is_quick else THOROUGH).within(free)
