"""The nodes as the scheduler knows them: what they have, what is taken, who is alive."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import structs

from gpuyard.contracts.fact import ExecutorInfo
from gpuyard.contracts.hardware import Inventory
from gpuyard_scheduler.core.node import Node, State

SILENT_AFTER_S = 5.0
"""Without a sign of life for so long, a node is unknown: nothing new goes there, what runs stays."""


class Cluster:
    """All nodes. `version` grows whenever what fits may have changed; `roster` when more may fit ever."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.version = 0
        self.roster = 0
        self._held: defaultdict[str, set[str]] = defaultdict(set)
        self._at_best: tuple[int, Cluster] | None = None

    def usable(self, only: Iterable[str] = ()) -> list[Node]:
        """Nodes where work can be placed, or those of them that are named."""
        named = [self.nodes[name] for name in dict.fromkeys(only) if name in self.nodes]
        return [node for node in (named if only else self.nodes.values()) if node.usable]

    def see_inventory(self, inventory: Inventory) -> None:
        node = self._node(inventory.node)
        if node.inventory and structs.replace(node.inventory, at_s=inventory.at_s) == inventory:
            return
        node.describe(inventory)
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

    def see_load(self, node_id: str, levels: Mapping[str, int]) -> None:
        """Measured load of GPUs that are free, by UUID: it decides between equals, never what fits."""
        node = self._node(node_id)
        node.levels = dict(levels)
        node.changed()

    def check_silence(self, mono_s: float) -> None:
        for node in self.nodes.values():
            if node.alive and mono_s - (node.beat_s or 0.0) >= SILENT_AFTER_S:
                node.alive = False
                self.version += 1

    def holders(self, node_id: str) -> Mapping[str, str]:
        """Which job has each GPU of the node that is taken."""
        node = self.nodes.get(node_id)
        return node.holders if node else {}

    def hold(self, job: str, node_id: str, gpus: tuple[str, ...]) -> None:
        """One rank of the job takes these GPUs of the node, or a place without GPUs."""
        node = self._node(node_id)
        node.holders.update(dict.fromkeys(gpus, job))
        if not gpus:
            node.cpu_ranks[job] = node.cpu_ranks.get(job, 0) + 1
        node.changed()
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
        node.changed()
        self._held[job].discard(node_id)
        if not self._held[job]:
            del self._held[job]
        self.version += 1

    def trust(self, nodes: Iterable[str]) -> None:
        """Launches there succeed."""
        for node in map(self._node, nodes):
            node.failed_launches = 0
            node.changed()

    def distrust(self, nodes: Iterable[str]) -> None:
        """A launch failed there through no fault of the job: others first, until one succeeds."""
        for node in map(self._node, nodes):
            node.failed_launches += 1
            node.changed()

    def supposing(self, *, all_free: bool = True, all_well: bool = True) -> "Cluster":
        """A copy of the nodes that answer: what if nothing were taken, what if every GPU were well."""
        return self._copied(self.usable(), all_free=all_free, all_well=all_well)

    def at_best(self) -> "Cluster":
        """A copy in which every known node answers, nothing is taken and every GPU is well."""
        if self._at_best is None or self._at_best[0] != self.roster:
            described = [node for node in self.nodes.values() if node.inventory]
            self._at_best = self.roster, self._copied(described, all_free=True, all_well=True)
        return self._at_best[1]

    @staticmethod
    def _copied(nodes: Iterable[Node], *, all_free: bool, all_well: bool) -> "Cluster":
        copy = Cluster()
        copy.nodes = {node.id: node.supposing(all_free=all_free, all_well=all_well) for node in nodes}
        return copy

    def _grow(self) -> None:
        self.version += 1
        self.roster += 1

    def _node(self, node_id: str) -> Node:
        return self.nodes.setdefault(node_id, Node(node_id))


def alike(nodes: Iterable[Node]) -> dict[State, list[Node]]:
    """Nodes by state: what is chosen for one of a group holds for all of it."""
    groups: defaultdict[State, list[Node]] = defaultdict(list)
    for node in nodes:
        groups[node.state].append(node)
    return groups
