"""Jobs of 1, 2 and 4 GPUs come and go on one node: how many land on fully linked GPUs, by policy.

Arrivals are random in time, run for exponential times, and are turned away if too few GPUs are free. So
every policy places the same jobs at the same moments; only the sets of GPUs differ. Where
go-gpuallocator would panic it gets the first fit.

A set is fully linked if every pair of it has NVLink, on a machine that has NVLink; on others if every pair
is at the best PCIe level that all pairs of any set of that size on that machine can have.
"""

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from math import inf

from gpuyard.topology.baselines import first_fit, go_gpuallocator
from gpuyard.topology.choice import Choice, choose
from gpuyard.topology.ring import mask_of
from gpuyard.topology.shape import Shape

SIZES = (1, 2, 4)
# Weights of the sizes; offered work relative to what the node can do.
MIXES = ((1, 1, 1), (3, 2, 1), (1, 2, 3))
LOADS = (0.6, 0.9, 1.3)

Policy = Callable[[Shape, int, int], Choice | None]
POLICIES: dict[str, Policy] = {
    "gpuyard": choose,
    "go-gpuallocator": go_gpuallocator,
    "first-fit": first_fit,
}


@dataclass(frozen=True)
class Tally:
    """Jobs of more than one GPU under one policy: all, those fully linked, those on one socket."""

    jobs: dict[int, int]
    linked: dict[int, int]
    one_socket: int

    @property
    def all_linked(self) -> int:
        return sum(self.linked.values())


def tally(shape: Shape, policy: Policy, seeds: range, jobs: int) -> Tally:
    """What a policy makes of these sequences of so many jobs each."""

    @cache
    def place(free: int, count: int) -> tuple[int, ...]:
        choice = policy(shape, free, count) or first_fit(shape, free, count)
        assert choice is not None
        return choice.gpus

    runs = product(seeds, MIXES, LOADS)
    sets = [gpus for seed, mix, load in runs for gpus in _placed(shape.size, place, seed, mix, load, jobs)]
    wanted = {count: target(shape, count) for count in SIZES[1:]}
    return Tally(
        {count: sum(len(gpus) == count for gpus in sets) for count in wanted},
        {
            count: sum(len(gpus) == count and grade(shape, gpus) >= least for gpus in sets)
            for count, least in wanted.items()
        },
        sum(len({shape.sides[gpu] for gpu in gpus}) == 1 for gpus in sets),
    )


def grade(shape: Shape, gpus: tuple[int, ...]) -> float:
    """The worst link of a set: infinite for NVLink, else the rank of its PCIe level."""
    pairs = combinations(gpus, 2)
    return min(inf if shape.nvlinks[a][b] else shape.closeness(a, b) for a, b in pairs)


def target(shape: Shape, count: int) -> float:
    """The grade of fully linked sets of this size."""
    if any(map(any, shape.nvlinks)):
        return inf
    return max(grade(shape, gpus) for gpus in combinations(range(shape.size), count))


def _placed(
    size: int,
    place: Callable[[int, int], tuple[int, ...]],
    seed: int,
    mix: tuple[int, ...],
    load: float,
    jobs: int,
) -> Iterator[tuple[int, ...]]:
    """The GPUs of each job of more than one."""
    dice = random.Random(f"{seed} {mix} {load}")
    mean = sum(weight * count for weight, count in zip(mix, SIZES, strict=True)) / sum(mix)
    now, free = 0.0, (1 << size) - 1
    running: list[tuple[float, int]] = []
    for _ in range(jobs):
        now += dice.expovariate(load * size / mean)
        (count,) = dice.choices(SIZES, mix)
        end = now + dice.expovariate(1)
        while running and running[0][0] <= now:
            free |= heapq.heappop(running)[1]
        if count > free.bit_count():
            continue
        gpus = place(free, count)
        free ^= mask_of(gpus)
        heapq.heappush(running, (end, mask_of(gpus)))
        if count > 1:
            yield gpus
