"""The ranks of a gang, and what one node does for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from gpuyard.contracts.job import JobSpec
from gpuyard.topology.choice import Choice
from gpuyard_scheduler.core.node import Node


@dataclass(frozen=True, slots=True)
class Rank:
    """One member of a gang and how many GPUs it wants."""

    rank: int
    task: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Share:
    """These ranks on these GPUs of the node."""

    node: Node
    ranks: tuple[Rank, ...]
    choice: Choice


def ranks_of(spec: JobSpec) -> list[Rank]:
    kinds = ((task.name, task.gpus_per_rank) for task in spec.tasks for _ in range(task.rank_count))
    return [Rank(number, name, gpus) for number, (name, gpus) in enumerate(kinds)]


def gpus_of(ranks: Sequence[Rank]) -> int:
    return sum(rank.gpus for rank in ranks)


def cpu_ranks_of(ranks: Sequence[Rank]) -> int:
    return sum(not rank.gpus for rank in ranks)
