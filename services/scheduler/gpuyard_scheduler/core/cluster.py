"""The nodes as the scheduler knows them: what they have, what is taken, who is alive."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from msgspec import structs

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
    failed_launches: int = 0

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
    """All nodes. `version` grows whenever what fits may have changed; `roster` when more may fit ever."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.version = 0
        self.roster = 0
        self._held: defaultdict[str, set[str]] = defaultdict(set)

    def usable(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.usable]

    def see_inventory(self, inventory: Inventory) -> None:
        node = self._node(inventory.node)
        node.inventory = inventory
        node.matrix = matrix_of(inventory)
        self._grow()

    def see_executor(self, info: ExecutorInfo) -> None:
        self._node(info.node).executor = info
        self._grow()

    def see_beat(self, node_id: str, mono_s: float) -> None:
        node = self._node(node_id)
        node.beat_s = mono_s
        if not node.alive:
            node.alive = True
            self._grow()

    def check_silence(self, mono_s: float) -> None:
        for node in self.nodes.values():
            if node.alive and mono_s - (node.beat_s or 0.0) >= SILENT_AFTER_S:
                node.alive = False
                self.version += 1

    def hold(self, job: str, node_id: str, gpus: tuple[str, ...]) -> None:
        """One rank of the job takes these GPUs of the node, or a place without GPUs."""
        node = self._node(node_id)
        node.holders.update(dict.fromkeys(gpus, job))
        if not gpus:
            node.cpu_ranks[job] = node.cpu_ranks.get(job, 0) + 1
        self._held[job].add(node_id)

    def hold_if_free(self, job: str, node_id: str, gpus: tuple[str, ...]) -> None:
        """Like `hold`, but GPUs that somebody has stay with them."""
        holders = self._node(node_id).holders
        if free := tuple(gpu for gpu in gpus if gpu not in holders):
            self.hold(job, node_id, free)

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

    def trust(self, nodes: Iterable[str]) -> None:
        """Launches there succeed."""
        for node in nodes:
            self._node(node).failed_launches = 0

    def distrust(self, nodes: Iterable[str]) -> None:
        """A launch failed there through no fault of the job: others first, until one succeeds."""
        for node in nodes:
            self._node(node).failed_launches += 1

    def emptied(self, *, alive_only: bool) -> "Cluster":
        """A copy in which nothing is taken and every GPU is well; of all nodes, or of those that answer."""
        copy = Cluster()
        for node in self.nodes.values():
            if node.inventory and (node.usable or not alive_only):
                copy.nodes[node.id] = _emptied(node)
        return copy

    def _grow(self) -> None:
        self.version += 1
        self.roster += 1

    def _node(self, node_id: str) -> Node:
        return self.nodes.setdefault(node_id, Node(node_id))


def _emptied(node: Node) -> Node:
    assert node.inventory
    gpus = tuple(structs.replace(gpu, health=Health.OK) for gpu in node.inventory.gpus)
    empty = replace(node, inventory=structs.replace(node.inventory, gpus=gpus), holders={}, cpu_ranks={})
    empty.alive, empty.executor = True, node.executor or ExecutorInfo(node.id, 0.0, "process", "")
    return empty
