"""All that is known of the nodes, kept current message by message, so that looking again costs little.

Pure: the caller decodes messages and says when they came, by a clock of its own: clocks of nodes may differ.
"""

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass
from math import inf

from gpuyard.client.node_view import LinkView, NodeView, links_by_gpu, node_view
from gpuyard.contracts.fact import ExecutorInfo
from gpuyard.contracts.hardware import Inventory, NodeSample
from gpuyard.contracts.job import Job

SILENT_AFTER_S = 5.0
"""Monitors and executors speak once a second: who misses five times in a row is silent."""


@dataclass(slots=True)
class _Heard:
    """What a node said itself, and when it came."""

    sample: NodeSample | None = None
    sampled_s: float = -inf
    beat_s: float = -inf


class Cluster:
    """Takes messages in the order they come; gives views."""

    def __init__(self) -> None:
        self._inventories: dict[str, tuple[Inventory, tuple[tuple[LinkView, ...], ...]]] = {}
        self._executors: dict[str, ExecutorInfo] = {}
        self._heard: defaultdict[str, _Heard] = defaultdict(_Heard)
        self._holders: defaultdict[str, dict[str, Job]] = defaultdict(dict)
        """The job that holds each GPU, by node and UUID."""
        self._placed: dict[str, Job] = {}
        """Each job that holds GPUs, as it was when it took them."""

    @property
    def unsampled(self) -> Set[str]:
        """Known nodes that have not told a sample yet."""
        return {node for node in self._inventories if self._heard[node].sample is None}

    def take_inventory(self, inventory: Inventory) -> None:
        self._inventories[inventory.node] = (inventory, links_by_gpu(inventory))

    def take_executor(self, executor: ExecutorInfo) -> None:
        self._executors[executor.node] = executor

    def take_job(self, job: Job) -> None:
        """Let the job hold what its newest record says, and nothing else."""
        before = self._placed.pop(job.id, None)
        for node, gpu in _places(before) if before else ():
            if self._holders[node].get(gpu) is before:
                del self._holders[node][gpu]
        if job.placement is not None and not job.state.is_final:
            self._placed[job.id] = job
            for node, gpu in _places(job):
                self._holders[node][gpu] = job

    def take_sample(self, sample: NodeSample, now_s: float) -> None:
        heard = self._heard[sample.node]
        heard.sample, heard.sampled_s = sample, now_s

    def take_beat(self, node: str, now_s: float) -> None:
        self._heard[node].beat_s = now_s

    def forget_nodes(self) -> None:
        """What nodes are must be read anew."""
        self._inventories.clear()
        self._executors.clear()

    def forget_jobs(self) -> None:
        """Jobs must be read anew."""
        self._placed.clear()
        self._holders.clear()

    def views(self, now_s: float) -> list[NodeView]:
        """Every known node, sorted by name. What a node said too long ago is not known any more."""
        return [self._view(node, now_s) for node in sorted(self._inventories)]

    def _view(self, node: str, now_s: float) -> NodeView:
        inventory, links = self._inventories[node]
        heard = self._heard[node]
        sample = heard.sample if now_s - heard.sampled_s <= SILENT_AFTER_S else None
        beats = now_s - heard.beat_s <= SILENT_AFTER_S
        return node_view(
            inventory,
            links,
            self._executors.get(node),
            sample,
            self._holders.get(node, {}),
            heard=beats or sample is not None,
        )


def _places(job: Job) -> list[tuple[str, str]]:
    slots = job.placement.slots if job.placement else ()
    return [(slot.node, gpu) for slot in slots for gpu in slot.gpus]
