"""The executor's shell: several nodes in one process, each with its queue of orders and its sign of life."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

from gpuyard.bus.port import Delivery
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.fact import Beat, ExecutorInfo
from gpuyard.contracts.order import Order
from gpuyard.contracts.subjects import BEAT, EXECUTOR, ORDER, ORDERS_STREAM, STREAMS
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard.telemetry.traces import HEADER
from gpuyard_executor.core.events import OrderReceived
from gpuyard_executor.node import Node

BEAT_S = 1.0
_ACK_WAIT_S = 10.0


class ExecutorService:
    """Serves all its nodes until cancelled. Ranks run on after that."""

    def __init__(self, context: Context, nodes: Sequence[Node], info: Callable[[str], ExecutorInfo]) -> None:
        self._context = context
        self._nodes = nodes
        self._info = info

    async def run(self) -> None:
        await self._insist(lambda: self._context.bus.ensure(STREAMS))
        async with asyncio.TaskGroup() as tasks:
            adopted = [tasks.create_task(self._adopt(node)) for node in self._nodes]
            await asyncio.gather(*adopted)
            for node in self._nodes:
                tasks.create_task(node.work())
                tasks.create_task(node.watch())
                tasks.create_task(self._take_orders(node))
                tasks.create_task(self._beat(node))
            self._context.health.note("nodes", [node.name for node in self._nodes])
            tasks.create_task(self._tell_readiness())

    async def _adopt(self, node: Node) -> None:
        await self._insist(node.adopt)
        await self._insist(lambda: self._present(node.name))

    async def _present(self, node: str) -> None:
        await self._context.bus.append(EXECUTOR(node=node), encode(self._info(node)))

    async def _tell_readiness(self) -> None:
        """Without the bus no order comes and no fact gets out."""
        while True:
            if self._context.bus.connected:
                self._context.health.ready()
            else:
                self._context.health.not_ready("the bus does not answer")
            await self._context.clock.sleep(BEAT_S)

    async def _beat(self, node: Node) -> None:
        while True:
            self._measure(node)
            try:
                await self._context.bus.publish(
                    BEAT(node=node.name), encode(Beat(node.name, self._context.clock.now()))
                )
            except GpuyardError as error:
                self._context.log.debug("beat lost", node=node.name, error=str(error))
            await self._context.clock.sleep(BEAT_S)

    def _measure(self, node: Node) -> None:
        try:
            node.stand()
        except Exception as error:  # noqa: BLE001 - a figure that can't be had ends no service
            self._context.log.warning("not measured", node=node.name, error=repr(error))

    # -- orders --------------------------------------------------------------------------------------------

    async def _take_orders(self, node: Node) -> None:
        while True:
            await self._insist(lambda: self._work_off(node))

    async def _work_off(self, node: Node) -> None:
        subject = ORDER(node=node.name)
        worker = f"executor-{node.name}"
        async with self._context.bus.work(
            ORDERS_STREAM, worker, subject=subject, ack_wait_s=_ACK_WAIT_S
        ) as work:
            async for delivery in work:
                await self._take(node, delivery)

    async def _take(self, node: Node, delivery: Delivery) -> None:
        message = delivery.message
        try:
            order: Order = decode(message.payload, Order)
            if order.node != node.name:
                raise InvalidSpec(f"an order for {order.node} came to {node.name}")
        except InvalidSpec as error:
            await set_aside(self._context, message, error)
            await delivery.ack()
            return
        node.receive(OrderReceived(order, message.headers.get(HEADER, "")), delivery)

    async def _insist(self, call: Callable[[], Awaitable[object]]) -> None:
        """Try until the bus lets it through."""
        tries = 0
        while True:
            try:
                await call()
            except GpuyardError as error:
                tries += 1
                self._context.log.warning("tried again", error=str(error))
                await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter
            else:
                return
