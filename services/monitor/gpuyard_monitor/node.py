"""One node's voice: measures on time, and tells what it measured when the bus listens.

Two loops that share only the newest values, so that a bus that stalls never delays a measurement, and a
GPU driver that stalls silences its own node alone.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.hardware import Inventory, NodeSample
from gpuyard.contracts.subjects import INVENTORY, NODES_STREAM, SAMPLE
from gpuyard.runtime.service import Context
from gpuyard_monitor.gauges import Gauges

_APPEND_S = 2.0


class Source(Protocol):
    """Where a node's values come from."""

    async def inventory(self, now_s: float) -> Inventory: ...
    async def sample(self, now_s: float, seq: int) -> NodeSample: ...


class Node:
    """Speaks for one node.

    Args:
        on_change: called whenever `unheard` changed.

    """

    def __init__(
        self,
        node: str,
        source: Source,
        context: Context,
        *,
        sample_every_s: float,
        inventory_every_s: float,
        on_change: Callable[[], None],
    ) -> None:
        self.unheard = "nothing was told yet"
        """Why the bus does not know this node's newest state; empty if it does."""
        self._id = node
        self._source = source
        self._context = context
        self._every_s = sample_every_s
        self._refresh_every_s = inventory_every_s
        self._on_change = on_change
        self._warned = False
        self._gauges = Gauges(context.metrics, node)
        self._failures = context.metrics.counter(
            "gpuyard_monitor_unheard_total", "Times that the bus did not take a node's news.", ("node",)
        ).labels(node)
        self._inventory: Inventory | None = None
        self._told: Inventory | None = None
        """The newest inventory that is known to be in the stream."""
        self._sample: NodeSample | None = None
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Measure and tell until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._measure())
            tasks.create_task(self._tell())

    # Measure

    async def _measure(self) -> None:
        """Take samples at even distances."""
        clock, seq = self._context.clock, 0
        next_s = refresh_s = clock.monotonic()
        seen: set[str] | None = None
        while True:
            if clock.monotonic() >= refresh_s:
                await self._look_anew()
                refresh_s = clock.monotonic() + self._refresh_every_s
            self._sample = await self._source.sample(clock.now(), seq)
            self._gauges.show(self._sample)
            answering = {gpu.uuid for gpu in self._sample.gpus}
            if seen is not None and answering != seen:
                await self._look_anew()
            seen, seq = answering, seq + 1
            self._news.set()
            next_s = _next_time(next_s + self._every_s, clock.monotonic(), self._every_s)
            await clock.sleep(next_s - clock.monotonic())

    async def _look_anew(self) -> None:
        self._inventory = await self._source.inventory(self._context.clock.now())

    # Tell

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._publish_sample()
                await self._announce()
            except GpuyardError as error:
                self._not_heard(error)
            else:
                self._heard()

    async def _publish_sample(self) -> None:
        if self._sample is not None:
            await self._context.bus.publish(SAMPLE(node=self._id), encode(self._sample))

    async def _announce(self) -> None:
        """Write the inventory at the start and whenever the stream holds another, or lost it."""
        inventory = self._inventory
        if inventory is None or inventory is self._told:
            return
        if self._told is None or not await self._is_in_stream(inventory):
            await self._context.bus.ensure((NODES_STREAM,))
            await self._context.bus.append(INVENTORY(node=self._id), encode(inventory), timeout_s=_APPEND_S)
            self._context.log.info("inventory written", node=self._id, gpus=len(inventory.gpus))
        self._told = inventory

    async def _is_in_stream(self, inventory: Inventory) -> bool:
        newest = await self._context.bus.last(NODES_STREAM, INVENTORY(node=self._id))
        if newest is None:
            return False
        try:
            return replace(decode(newest.payload, Inventory), at_s=inventory.at_s) == inventory
        except InvalidSpec:
            return False

    def _not_heard(self, error: GpuyardError) -> None:
        """Counted each time, said once: an outage of the bus must not fill the disk with warnings."""
        self._failures.inc()
        if not self._warned:
            self._context.log.warning("the bus does not listen", node=self._id, error=error.message)
        self._warned, self.unheard = True, error.message
        self._on_change()

    def _heard(self) -> None:
        if not self.unheard:
            return
        if self._warned:
            self._context.log.info("the bus listens again", node=self._id)
        self._warned, self.unheard = False, ""
        self._on_change()


def _next_time(planned_s: float, now_s: float, every_s: float) -> float:
    """When the next sample is due; times that have passed meanwhile are left out."""
    return planned_s if planned_s > now_s else now_s + every_s
