"""One node's voice: measures on time, and tells what it measured when the bus listens.

Two loops that share only what is known of the node, so that a bus that stalls never delays a measurement, and
a GPU driver that stalls silences its own node alone.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Protocol

from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.figures import Figures
from gpuyard.contracts.hardware import NodeSample
from gpuyard.contracts.history import History, HistoryQuery
from gpuyard.runtime.service import Context
from gpuyard_monitor.core.health import Moment
from gpuyard_monitor.core.history import NodeHistory
from gpuyard_monitor.core.look import Hardware, Look
from gpuyard_monitor.core.watch import Watch
from gpuyard_monitor.gauges import Gauges
from gpuyard_monitor.held import HeldGpus
from gpuyard_monitor.news import News

PACED_EVERY_S = 4.0
"""How often the costly values are asked for: a rule that needs to see one twice still acts within 10 s."""
AGAIN_EVERY_S = 5.0
"""How often the hardware is looked at while a GPU does not answer."""


class Source(Protocol):
    """Where a node's values come from."""

    async def hardware(self) -> Hardware: ...
    async def look(self, now_s: float, *, paced: bool) -> Look: ...


class Node:
    """Speaks for one node.

    Args:
        held: who holds its GPUs.
        on_change: called whenever `unheard` changed.

    """

    def __init__(
        self,
        node: str,
        watch: Watch,
        source: Source,
        held: HeldGpus,
        context: Context,
        *,
        sample_every_s: float,
        inventory_every_s: float,
        on_change: Callable[[], None],
    ) -> None:
        self.id = node
        self.unheard = "nothing was told yet"
        """Why the bus does not know this node's newest state; empty if it does."""
        self.is_recalled = asyncio.Event()
        """Set once what an earlier monitor knew is known."""
        self._watch = watch
        self._source = source
        self._held = held
        self._context = context
        self._every_s = sample_every_s
        self._refresh_every_s = inventory_every_s
        self._on_change = on_change
        self._warned = False
        self._history = NodeHistory(node)
        self._gauges = Gauges(context.metrics, node)
        self._failures = context.metrics.counter(
            "gpuyard_monitor_unheard_total", "Times that the bus did not take a node's news.", ("node",)
        ).labels(node)
        self._told = News(context, node)
        self._sample: NodeSample | None = None
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Measure and tell until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._measure())
            tasks.create_task(self._tell())

    def history(self, query: HistoryQuery) -> History:
        """What was measured in the last hour."""
        now = self._now()
        return self._history.answer(query, now.at_s, now.mono_s)

    def take_figures(self, figures: Figures) -> None:
        """Take in what a probe measured.

        Raises:
            InvalidSpec: it can't be true of this node.

        """
        self._watch.take_figures(figures, self._now())
        self._news.set()

    def _now(self) -> Moment:
        return Moment(self._context.clock.now(), self._context.clock.monotonic())

    # Measure

    async def _measure(self) -> None:
        """Take samples at even distances."""
        clock, seq = self._context.clock, 0
        next_s = paced_s = clock.monotonic()
        seen_s = -math.inf
        while True:
            if clock.monotonic() >= seen_s + self._hardware_every_s():
                self._watch.see_hardware(await self._source.hardware(), self._now())
                seen_s = clock.monotonic()
            paced = clock.monotonic() >= paced_s
            paced_s = clock.monotonic() + PACED_EVERY_S if paced else paced_s
            await self._take_sample(seq, paced)
            seq += 1
            next_s = _next_time(next_s + self._every_s, clock.monotonic(), self._every_s)
            await clock.sleep(next_s - clock.monotonic())

    def _hardware_every_s(self) -> float:
        """A GPU that is away comes back by being found anew."""
        return min(self._refresh_every_s, AGAIN_EVERY_S) if self._watch.misses_gpus else self._refresh_every_s

    async def _take_sample(self, seq: int, paced: bool) -> None:
        now = self._now()
        look = await self._source.look(now.at_s, paced=paced)
        self._sample = self._watch.see(look, now, self._held.holders, seq)
        self._gauges.show(self._sample)
        self._told.add(self._watch.new_changes())
        self._history.put(self._sample.gpus, now.mono_s)
        self._news.set()

    # Tell

    async def _tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._tell_all()
            except GpuyardError as error:
                self._not_heard(error)
            else:
                self._heard()

    async def _tell_all(self) -> None:
        if self._sample is not None:
            await self._told.tell_sample(self._sample)
        if not self.is_recalled.is_set():
            self._watch.recall(await self._told.last(), self._now())
            self.is_recalled.set()
        self._told.add(self._watch.new_changes())
        await self._told.tell_events()
        if self._watch.inventory is not None:
            self._gauges.show_health(self._watch.inventory)
            await self._told.tell_inventory(self._watch.inventory)

    def _not_heard(self, error: GpuyardError) -> None:
        """Counted each time, said once: an outage of the bus must not fill the disk with warnings."""
        self._failures.inc()
        if not self._warned:
            self._context.log.warning("the bus does not listen", node=self.id, error=error.message)
        self._warned, self.unheard = True, error.message
        self._on_change()

    def _heard(self) -> None:
        if not self.unheard:
            return
        if self._warned:
            self._context.log.info("the bus listens again", node=self.id)
        self._warned, self.unheard = False, ""
        self._on_change()


def _next_time(planned_s: float, now_s: float, every_s: float) -> float:
    """When the next sample is due; times that have passed meanwhile are left out."""
    return planned_s if planned_s > now_s else now_s + every_s
