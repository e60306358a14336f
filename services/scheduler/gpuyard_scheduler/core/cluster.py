"""The nodes as the scheduler knows them: what they have, what is taken, who is alive."""

from collections import defaultdict
from dataclasses import dataclass, field

from gpuyard.contracts.fact import ExecutorInfo
from gpuyard.contracts.hardware import Gpu, Health, Inventory
from gpuyard_scheduler.core.links import Matrix, matrix_of

SILENT_AFTER_S = 5.0
"""Without a sign of life for so long, a node is unknown: nothing new goes there, what runs stays."""
CPU_RANKS_PER_CORE = 4
"""Ranks without GPUs that a node takes for each of its logical CPUs."""


@dataclass
class Node:
    """One node. `holders` maps a GPU's UUID to the job that has it; `cpu_ranks` counts GPU-less ranks."""

    id: str
    inventory: Inventory | None = None
    executor: ExecutorInfo | None = None
    beat_s: float | None = None
    alive: bool = False
    matrix: Matrix = ()
    holders: dict[str, str] = field(default_factory=dict)
    cpu_ranks: dict[str, int] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Whether new work may go there."""
        return self.alive and self.inventory is not None and self.executor is not None

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return self.inventory.gpus if self.inventory else ()

    def free(self) -> tuple[int, ...]:
        """Positions of the GPUs that can be taken."""
        return tuple(
            position
            for position, gpu in enumerate(self.gpus)
            if gpu.health is Health.OK and gpu.uuid not in self.holders
        )

    def room_for_cpu_ranks(self) -> int:
        cpus = (self.inventory.host.cpus if self.inventory else None) or 1
        return max(0, cpus * CPU_RANKS_PER_CORE - sum(self.cpu_ranks.values()))


class Cluster:
    """All nodes. `version` grows whenever more may fit than before."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.version = 0
        self._held: defaultdict[str, set[str]] = defaultdict(set)

    def usable(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.usable]

    def see_inventory(self, inventory: Inventory) -> None:
        node = self._node(inventory.node)
        node.inventory = inventory
        node.matrix = matrix_of(inventory)
        self.version += 1

    def see_executor(self, info: ExecutorInfo) -> None:
        self._node(info.node).executor = info
        self.version += 1

    def see_beat(self, node_id: str, now_s: float) -> None:
        node = self._node(node_id)
        node.beat_s = now_s
        if not node.alive:
            node.alive = True
            self.version += 1

    def check_silence(self, now_s: float) -> None:
        for node in self.nodes.values():
            node.alive = node.beat_s is not None and now_s - node.beat_s < SILENT_AFTER_S

    def hold(self, job: str, node_id: str, gpus: tuple[str, ...]) -> None:
        """One rank of the job takes these GPUs of the node, or a place without GPUs."""
        node = self._node(node_id)
        node.holders.update(dict.fromkeys(gpus, job))
        if not gpus:
            node.cpu_ranks[job] = node.cpu_ranks.get(job, 0) + 1
        self._held[job].add(node_id)

    def hold_if_free(self, job: str, node_id: str, gpus: tuple[str, ...]) -> None:
        """Like `hold`, but GPUs that somebody has stay with them."""
        node = self._node(node_id)
        self.hold(job, node_id, tuple(gpu for gpu in gpus if gpu not in node.holders))

    def release(self, job: str, node_id: str) -> None:
        """Nothing of the job is left on the node."""
        if node_id not in self._held.get(job, ()):
            return
        node = self._node(node_id)
        node.holders = {gpu: holder for gpu, holder in node.holders.items() if holder != job}
        node.cpu_ranks.pop(job, None)
        self._held[job].discard(node_id)
        if not self._held[job]:
            del self._held[job]
        self.version += 1

    def _node(self, node_id: str) -> Node:
        return self.nodes.setdefault(node_id, Node(node_id))
