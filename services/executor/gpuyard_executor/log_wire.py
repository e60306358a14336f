"""The subject of one rank's output on the bus. Insists: output has nowhere else to go."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuyard.bus.port import Message, Streams
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.log import LogBatch, partition_of
from gpuyard.contracts.subjects import LOG, LOGS_STREAM
from gpuyard.runtime.retry import backoff_s
from gpuyard.telemetry.logs import Log
from gpuyard_executor.core.batching import Position

POSITION_HEADER = "Gpuyard-Position"


@dataclass(frozen=True)
class LogWire:
    """Each batch carries the position after it, so that whoever finds it knows where to go on."""

    bus: Streams
    log: Log
    headers: Mapping[str, str]
    sent: Callable[[int], None]
    """Told the size of each batch that is on the bus."""

    async def send(self, batch: LogBatch, after: Position) -> None:
        """Return when the batch is on the bus; sending it again within minutes changes nothing."""
        subject, payload = _subject(batch), encode(batch)
        headers = {**self.headers, POSITION_HEADER: " ".join(map(str, after))}
        msg_id = f"{batch.job}.{batch.attempt}.{batch.rank}.{batch.first_seq}.{batch.next_seq}"
        tries = 0
        while True:
            try:
                await self.bus.append(subject, payload, headers=headers, msg_id=msg_id)
            except GpuyardError as error:
                tries += 1
                await self.pause(tries, error)
            else:
                self.sent(sum(len(chunk.data) for chunk in batch.chunks))
                return

    async def newest(self, batch: LogBatch) -> tuple[Position, bool]:
        """Where the newest batch of the same rank ends, and whether it is the last."""
        tries = 0
        while True:
            try:
                return _position_of(await self.bus.last(LOGS_STREAM, _subject(batch)))
            except GpuyardError as error:
                tries += 1
                await self.pause(tries, error)

    async def pause(self, tries: int, error: Exception) -> None:
        """Wait before the next try."""
        self.log.warning("output has to wait", error=str(error))
        await asyncio.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter


def _subject(batch: LogBatch) -> str:
    return LOG(partition=partition_of(batch.job), job=batch.job, attempt=batch.attempt, rank=batch.rank)


def _position_of(message: Message | None) -> tuple[Position, bool]:
    if message is None:
        return Position(), False
    numbers = map(int, message.headers.get(POSITION_HEADER, "0 0 0 0").split())
    return Position(*numbers), decode(message.payload, LogBatch).end
