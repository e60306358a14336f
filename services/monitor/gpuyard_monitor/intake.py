"""Takes in what probes measured on a node."""

import random

from gpuyard.bus.port import Delivery
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.figures import Figures
from gpuyard.contracts.subjects import FIGURES, FIGURES_STREAM
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard_monitor.node import Node


class Intake:
    """Works off FIGURES of one node. Figures that can't be true are set aside and counted."""

    def __init__(self, context: Context, node: Node) -> None:
        self._context = context
        self._node = node

    async def run(self) -> None:
        """Take in for ever, from when the node's own past is known."""
        await self._node.is_recalled.wait()
        tries = 0
        while True:
            try:
                await self._work_off()
            except GpuyardError as error:
                tries += 1
                self._context.log.warning("figures can't be taken", node=self._node.id, error=str(error))
            await self._context.clock.sleep(backoff_s(max(tries, 1), chance=random.random()))  # noqa: S311 - jitter

    async def _work_off(self) -> None:
        bus, subject = self._context.bus, FIGURES(node=self._node.id)
        await bus.ensure((FIGURES_STREAM,))
        async with bus.work(FIGURES_STREAM, f"monitor-{self._node.id}", subject=subject) as work:
            async for delivery in work:
                await self._take(delivery)

    async def _take(self, delivery: Delivery) -> None:
        try:
            figures = decode(delivery.message.payload, Figures)
            self._node.take_figures(figures)
        except InvalidSpec as error:
            await set_aside(self._context, delivery.message, error)
        else:
            self._context.log.info("figures taken", node=self._node.id, pairs=len(figures.pairs))
        await delivery.ack()
