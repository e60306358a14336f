"""Between stream and store: messages gather here while the disk is busy, and leave together as one round."""

import asyncio
from typing import NamedTuple

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.log import LogBatch
from gpuyard.contracts.subjects import LOG
from gpuyard_logger.core.sequence import check


class Received(NamedTuple):
    """A message of the stream and what is in it; None if that can't be read."""

    message: Message
    batch: LogBatch | None


class Intake:
    """Messages on their way to the store, in the order of the stream; full at one round."""

    def __init__(self, round_bytes: int, round_messages: int) -> None:
        self._round_bytes = round_bytes
        self._round_messages = round_messages
        self._waiting: list[Received] = []
        self._bytes = 0
        self._changed = asyncio.Condition()

    async def put(self, received: Received) -> None:
        """Hand over a message; waits while the intake is full."""
        async with self._changed:
            await self._changed.wait_for(self._has_room)
            self._waiting.append(received)
            self._bytes += len(received.message.payload)
            self._changed.notify_all()

    async def take(self) -> list[Received]:
        """Everything that is there; waits until something is."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting)
            taken, self._waiting, self._bytes = self._waiting, [], 0
            self._changed.notify_all()
            return taken

    def _has_room(self) -> bool:
        return self._bytes < self._round_bytes and len(self._waiting) < self._round_messages


def parse_batch(message: Message) -> LogBatch:
    """Read a batch and check it against itself and its subject.

    Raises:
        InvalidSpec: it can't be stored; says why.

    """
    batch = decode(message.payload, LogBatch)
    if message.subject != LOG(job=batch.job, attempt=batch.attempt, rank=batch.rank):
        raise InvalidSpec(f"a batch of {batch.job}, attempt {batch.attempt}, rank {batch.rank} came there")
    check(batch)
    return batch
