"""Answers questions about the last hour of a node."""

import random

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.history import HistoryQuery
from gpuyard.contracts.subjects import HISTORY_QUERY
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard_monitor.node import Node


class Answers:
    """Serves HISTORY_QUERY of one node. A bad question gets a failure for an answer and changes nothing."""

    def __init__(self, context: Context, node: Node) -> None:
        self._context = context
        self._node = node

    async def run(self) -> None:
        """Answer one question after the other, for ever."""
        tries = 0
        while True:
            try:
                async with self._context.bus.subscribe(HISTORY_QUERY(node=self._node.id)) as questions:
                    tries = 0
                    async for question in questions:
                        await self._reply(question)
            except GpuyardError as error:
                self._context.log.warning("questions can't be heard", node=self._node.id, error=str(error))
            tries += 1
            await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter

    async def _reply(self, question: Message) -> None:
        if not question.reply:
            return
        try:
            await self._context.bus.publish(question.reply, self._answer(question))
        except GpuyardError as error:
            self._context.log.warning("answer not sent", node=self._node.id, error=str(error))

    def _answer(self, question: Message) -> bytes:
        try:
            return encode(self._node.history(decode(question.payload, HistoryQuery)))
        except GpuyardError as error:
            return encode(error.to_failure())
