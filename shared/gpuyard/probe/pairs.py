"""Copies between two devices: how fast one way, and whether everything arrives."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch

from . import payload
from .devices import settle, timed_s
from .effort import Effort

WARM_UP = 2
"""The first copies set up peer access and staging buffers."""

Copy = Callable[[torch.Tensor, torch.Tensor], object]
"""Copies into the first from the second."""


@dataclass(frozen=True)
class OneWay:
    """GB/s of the size that ran best, and how many of the copies arrived wrong."""

    gb_s: float
    copies: int
    wrong: int


def one_way(
    source: torch.device, target: torch.device, effort: Effort, copy: Copy = torch.Tensor.copy_
) -> OneWay:
    """Copy from one device to the other; every copy is compared at the far end."""
    runs = [_copies(source, target, size_bytes, effort.repeats, copy) for size_bytes in effort.copy_bytes]
    return OneWay(
        max(run.gb_s for run in runs), sum(run.copies for run in runs), sum(run.wrong for run in runs)
    )


def _copies(source: torch.device, target: torch.device, size_bytes: int, repeats: int, copy: Copy) -> OneWay:
    times_s, wrong = [], 0
    received = torch.empty(size_bytes // 4, dtype=torch.int32, device=target)
    for number in range(WARM_UP + repeats):
        sent = payload.words(number, size_bytes, source)
        received.fill_(-1)  # what was there before must not pass for what was sent
        settle(source, target)
        times_s.append(timed_s(source, partial(copy, received, sent)))
        settle(source, target)
        wrong += not payload.is_same(received, payload.words(number, size_bytes, target))
    return OneWay(size_bytes / median(times_s[WARM_UP:]) / 1e9, len(times_s), wrong)
