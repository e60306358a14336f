"""All-reduce over growing groups of devices, one process for each device, as training does it.

Bus bandwidth is that of nccl-tests (doc/PERFORMANCE.md): bytes / seconds * 2 (n - 1) / n, which can be
compared with the bandwidth of the links whatever the size of the group. A gloo group over the host's
memory collects the results, so that nothing but payload takes the way that is measured.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from statistics import median

import torch
from torch import distributed
from torch.multiprocessing.spawn import spawn

from . import payload
from .devices import Device, settle, timed_s
from .effort import Effort
from .groups import sizes
from .report import rounded, tell

WARM_UP = 2
_PATIENCE = timedelta(minutes=3)

Reduce = Callable[[torch.Tensor], object]
"""Replaces a tensor by the sum of those of all members."""


@dataclass(frozen=True)
class Share:
    """What one member saw: the median seconds of each size, and how many sums were wrong."""

    median_s: tuple[float, ...]
    sums: int
    wrong: int


def measure(devices: Sequence[Device], effort: Effort) -> None:
    """Tell the bus bandwidth of each group size; a group is the first so many devices.

    Raises:
        ProcessException: a process failed; its words are on stderr.

    """
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder, "rendezvous").as_uri()
        spawn(_member, (meeting, tuple(devices), effort), nprocs=len(devices))  # type: ignore[no-untyped-call]


def _member(rank: int, meeting: str, devices: Sequence[Device], effort: Effort) -> None:
    """One process, from its start to its end."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all members are here, whatever this host's name is
    place = devices[rank].at
    if place.type == "cuda":
        torch.cuda.set_device(place)
    distributed.init_process_group(
        "gloo", init_method=meeting, rank=rank, world_size=len(devices), timeout=_PATIENCE
    )
    try:
        for count in sizes(len(devices)):
            _with_group(rank, count, devices, effort)
    finally:
        distributed.destroy_process_group()


def _with_group(rank: int, count: int, devices: Sequence[Device], effort: Effort) -> None:
    """Measure one group; whoever is not in it waits, and the first tells."""
    place = devices[rank].at
    backend = "nccl" if place.type == "cuda" else "gloo"
    group = distributed.new_group(list(range(count)), backend=backend, timeout=_PATIENCE)
    share = None
    if rank < count:
        share = measured(rank, count, place, effort, lambda data: distributed.all_reduce(data, group=group))
    shares: list[Share | None] = [None] * len(devices)
    distributed.all_gather_object(shares, share)
    if rank == 0:
        taken = [each for each in shares if each]
        tell(
            "group",
            gpus=[device.gpu for device in devices[:count]],
            gb_s=rounded(bus_gb_s(effort.reduce_bytes, taken)),
            sums=sum(each.sums for each in taken),
            wrong=sum(each.wrong for each in taken),
        )


def measured(rank: int, count: int, place: torch.device, effort: Effort, reduce: Reduce) -> Share:
    """Take part in the all-reduces of one group; every sum is compared with what it must be."""
    medians_s, sums, wrong = [], 0, 0
    for size_bytes in effort.reduce_bytes:
        times_s = []
        for _ in range(WARM_UP + effort.repeats):
            data = payload.terms(rank, size_bytes, place)
            pulse = torch.zeros(1, device=place)
            settle(place)
            reduce(pulse)  # nobody leaves it before all have come: the members start together
            times_s.append(timed_s(place, partial(reduce, data)))
            settle(place)
            wrong += not payload.is_same(data, payload.total(count, size_bytes, place))
        medians_s.append(median(times_s[WARM_UP:]))
        sums += len(times_s)
    return Share(tuple(medians_s), sums, wrong)


def bus_gb_s(reduce_bytes: Sequence[int], shares: Sequence[Share]) -> float:
    """Bus bandwidth of the size that ran best, each as fast as its slowest member."""
    count = len(shares)
    slowest_s = [max(times) for times in zip(*(share.median_s for share in shares), strict=True)]
    algorithm_gb_s: float = max(
        size / took_s / 1e9 for size, took_s in zip(reduce_bytes, slowest_s, strict=True)
    )
    return algorithm_gb_s * 2 * (count - 1) / count
