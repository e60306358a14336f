"""One node as the scheduler knows it: what it has, what is taken, how it is doing."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gpuyard.contracts.fact import ExecutorInfo
from gpuyard.contracts.hardware import Gpu, Health, Inventory
from gpuyard.topology.shape import Shape, shape_of, shape_of_parts

CPU_RANKS_PER_CORE = 4
"""Ranks without GPUs that a node takes for each of its logical CPUs."""
_NO_GPUS = shape_of_parts((), ())


class State(NamedTuple):
    """All that a choice of GPUs depends on: for nodes of equal state it is made once.

    `free` is a bit mask; `load` has a level for each GPU, or is empty if all that are free are idle.
    """

    shape: Shape
    free: int
    load: tuple[int, ...] = ()
    failed_launches: int = 0


@dataclass
class Node:
    """One node. `holders` maps a GPU's UUID to the job that has it; `cpu_ranks` counts GPU-less ranks."""

    id: str
    inventory: Inventory | None = None
    executor: ExecutorInfo | None = None
    beat_s: float | None = None
    alive: bool = False
    holders: dict[str, str] = field(default_factory=dict)
    cpu_ranks: dict[str, int] = field(default_factory=dict)
    failed_launches: int = 0
    levels: dict[str, int] = field(default_factory=dict)
    """Measured load by UUID; GPUs that idle are left out."""
    ignores_health: bool = False
    shape: Shape = _NO_GPUS
    _state: State | None = field(default=None, init=False)

    @property
    def usable(self) -> bool:
        """Whether new work may go there."""
        return self.alive and self.inventory is not None and self.executor is not None

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return self.inventory.gpus if self.inventory else ()

    @property
    def rack(self) -> str:
        """Its rack; empty if nobody said."""
        return self.inventory.labels.get("rack", "") if self.inventory else ""

    @property
    def state(self) -> State:
        """Worked out anew only after a change."""
        if self._state is None:
            self._state = State(self.shape, self._free_mask(), self._load(), self.failed_launches)
        return self._state

    @property
    def free_count(self) -> int:
        """How many GPUs can be taken."""
        return self.state.free.bit_count()

    def is_well(self, gpu: Gpu) -> bool:
        return self.ignores_health or gpu.health is Health.OK

    def unwell(self) -> tuple[Gpu, ...]:
        """GPUs that nobody has, but that must not be given."""
        return tuple(gpu for gpu in self.gpus if gpu.uuid not in self.holders and not self.is_well(gpu))

    def room_for_cpu_ranks(self) -> int:
        cpus = (self.inventory.host.cpus if self.inventory else None) or 1
        return max(0, cpus * CPU_RANKS_PER_CORE - sum(self.cpu_ranks.values()))

    def describe(self, inventory: Inventory) -> None:
        """Take in what the node is; its shape is read again only if its hardware changed."""
        if self.inventory is None or _hardware(self.inventory) != _hardware(inventory):
            self.shape = shape_of(inventory)
        self.inventory = inventory
        self.changed()

    def supposing(self, *, all_free: bool, all_well: bool) -> "Node":
        """A copy that answers; with nothing taken, or with every GPU well."""
        return replace(
            self,
            alive=True,
            executor=self.executor or ExecutorInfo(self.id, 0.0, "process", ""),
            holders={} if all_free else self.holders,
            cpu_ranks={} if all_free else self.cpu_ranks,
            ignores_health=all_well,
        )

    def changed(self) -> None:
        """Whatever a choice depends on may be different now."""
        self._state = None

    def _free_mask(self) -> int:
        return sum(
            1 << position
            for position, gpu in enumerate(self.gpus)
            if gpu.uuid not in self.holders and self.is_well(gpu)
        )

    def _load(self) -> tuple[int, ...]:
        """What is measured on GPUs that somebody has says nothing about them once they are free."""
        load = tuple(0 if gpu.uuid in self.holders else self.levels.get(gpu.uuid, 0) for gpu in self.gpus)
        return load if any(load) else ()


def _hardware(inventory: Inventory) -> object:
    sides = [(gpu.uuid, gpu.numa, gpu.cpus) for gpu in inventory.gpus]
    return sides, inventory.links, inventory.nics
