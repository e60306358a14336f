"""Everything that one node has to tell, brought to the bus when it listens."""

import hashlib
from collections import deque
from collections.abc import Iterable

from msgspec.structs import replace

from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.hardware import Inventory, NodeSample
from gpuyard.contracts.subjects import INVENTORY, NODE_EVENT, NODE_EVENTS_STREAM, NODES_STREAM, SAMPLE
from gpuyard.runtime.service import Context
from gpuyard_monitor.core.changes import Change

_APPEND_S = 2.0
_KEPT_EVENTS = 1000


class News:
    """Tells samples, events and the inventory of one node. What it could not tell it still has."""

    def __init__(self, context: Context, node: str) -> None:
        self._context = context
        self._node = node
        self._changes: deque[Change] = deque()
        self._told: Inventory | None = None
        """The newest inventory that is known to be in the stream."""
        self._has_streams = False
        counter = context.metrics.counter
        self._written = counter("gpuyard_monitor_events_total", "Events of nodes.", ("node", "kind"))
        self._dropped = counter(
            "gpuyard_monitor_events_dropped_total", "Events dropped while the bus was away.", ("node",)
        ).labels(node)

    def add(self, changes: Iterable[Change]) -> None:
        """Keep events until the bus takes them. If it is away for long, the oldest ones go."""
        self._changes.extend(changes)
        while len(self._changes) > _KEPT_EVENTS:
            self._changes.popleft()
            self._dropped.inc()

    async def last(self) -> Inventory | None:
        """The inventory in the stream; None if there is none that can be read."""
        await self._ensure()
        newest = await self._context.bus.last(NODES_STREAM, INVENTORY(node=self._node))
        try:
            return decode(newest.payload, Inventory) if newest else None
        except InvalidSpec as error:
            self._context.log.warning("the last inventory can't be read", node=self._node, error=str(error))
            return None

    async def tell_sample(self, sample: NodeSample) -> None:
        await self._context.bus.publish(SAMPLE(node=self._node), encode(sample))

    async def tell_events(self) -> None:
        """Write what is kept, oldest first; an event that was perhaps written is not written twice."""
        while self._changes:
            change = self._changes[0]
            event, subject = change.event, NODE_EVENT(node=self._node)
            await self._context.bus.append(subject, encode(event), msg_id=_id(change), timeout_s=_APPEND_S)
            if self._changes and self._changes[0] is change:
                self._changes.popleft()
            self._written.labels(self._node, event.kind).inc()
            self._context.log.info(event.message, node=self._node, event_kind=event.kind, gpu=event.gpu)

    async def tell_inventory(self, inventory: Inventory) -> None:
        """Write it if the stream holds another, or lost it."""
        if inventory is self._told:
            return
        if not _is_same(await self.last(), inventory):
            await self._context.bus.append(INVENTORY(node=self._node), encode(inventory), timeout_s=_APPEND_S)
            self._context.log.info("inventory written", node=self._node, gpus=len(inventory.gpus))
        self._told = inventory

    async def _ensure(self) -> None:
        await self._context.bus.ensure((NODES_STREAM, NODE_EVENTS_STREAM))


def _is_same(told: Inventory | None, inventory: Inventory) -> bool:
    return told is not None and replace(told, at_s=inventory.at_s) == inventory


def _id(change: Change) -> str:
    """The same for the same change, whichever monitor tells it, and for no other."""
    dated = replace(change.event, at_s=change.before_s)
    return hashlib.blake2b(encode(dated), digest_size=16).hexdigest()
