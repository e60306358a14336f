"""A durable queue shared by workers: explicit acknowledgement, redelivery, little fetched ahead."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from gpuyard.bus.jetstream import ApiError, JetStream, nanoseconds, plain_error
from gpuyard.bus.nats_client import Connection
from gpuyard.bus.nats_pull import Position, Pull
from gpuyard.bus.port import Delivery, Message
from gpuyard.bus.wire import parse_headers, publish_command
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.subjects import Stream

# Few: what is fetched ahead can't be taken by another worker, and its ack timeout is running.
_AHEAD = 16
_ACK_TIMEOUT_S = 5.0


class NatsWork:
    """See `gpuyard.bus.port.Work`."""

    request: Mapping[str, Any] = MappingProxyType({})

    def __init__(
        self,
        connection: Connection,
        jetstream: JetStream,
        stream: Stream,
        worker: str,
        *,
        subject: str,
        ack_wait_s: float,
        max_pending: int,
    ) -> None:
        self.stream = stream.name
        self.window = min(_AHEAD, max_pending)
        self.pull = Pull(connection, self)
        self._connection = connection
        self._jetstream = jetstream
        self._worker = worker
        self._subject = subject
        self._ack_wait_s = ack_wait_s
        self._max_pending = max_pending
        self._kept: deque[_Delivery] = deque()

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    async def __anext__(self) -> Delivery:
        while True:
            while not self._kept:
                await self.pull.arrival()
            delivery = self._kept.popleft()
            self.pull.refill()
            # An older one is already on its way to someone again.
            if delivery.arrived_s + self._ack_wait_s > asyncio.get_running_loop().time():
                return delivery

    async def create_consumer(self) -> str:
        """Create the durable consumer, or bring it to these settings."""
        config: dict[str, Any] = {
            "durable_name": self._worker,
            "name": self._worker,
            "ack_policy": "explicit",
            "ack_wait": nanoseconds(self._ack_wait_s),
            "max_ack_pending": self._max_pending,
            "max_deliver": -1,
        }
        if self._subject:
            config["filter_subject"] = self._subject
        filtered = f".{self._subject}" if self._subject else ""
        try:
            await self._jetstream.api(
                f"CONSUMER.CREATE.{self.stream}.{self._worker}{filtered}",
                {"stream_name": self.stream, "config": config},
            )
        except ApiError as error:
            raise plain_error(error, self.stream) from None
        return self._worker

    def take(self, subject: str, position: Position, payload: bytes, headers: bytes, reply: str) -> bool:
        """Keep the delivery."""
        parsed = parse_headers(headers)[1] if headers else {}
        message = Message(subject, payload, parsed, seq=position.seq, at_s=position.at_s)
        arrived_s = asyncio.get_running_loop().time()
        self._kept.append(_Delivery(message, position.tries, arrived_s, reply, self._connection))
        return True

    def waiting(self) -> int:
        """Deliveries kept and not yet yielded."""
        return len(self._kept)

    def caught_up(self) -> None:
        """Nothing to do: nobody counts."""

    async def close(self) -> None:
        """Give back what nobody took, so that another worker gets it at once."""
        await self.pull.stop()
        for delivery in self._kept:
            await delivery.nak()
        self._kept.clear()


@dataclass(frozen=True, slots=True)
class _Delivery:
    message: Message
    tries: int
    arrived_s: float
    _ack_subject: str
    _connection: Connection

    async def ack(self) -> None:
        await self._answer(b"+ACK")

    async def nak(self, delay_s: float = 0.0) -> None:
        await self._answer(b"-NAK " + json.dumps({"delay": nanoseconds(delay_s)}).encode())

    async def working(self) -> None:
        await self._answer(b"+WPI")

    async def _answer(self, word: bytes) -> None:
        """If the bus is away for long, the message comes again: that is the promise anyway."""
        try:
            link = await self._connection.link(asyncio.get_running_loop().time() + _ACK_TIMEOUT_S)
        except Unavailable:
            return
        link.send(publish_command(self._ack_subject, word))
