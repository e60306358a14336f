"""A stream read in order, gapless, across every kind of interruption.

The consumer is ephemeral and acknowledges nothing: the position is kept here. A new consumer starts behind
the last message kept, so an interruption shows neither as a gap nor as a repeat.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from gpuyard.bus.jetstream import STREAM_NOT_FOUND, ApiError, JetStream, plain_error
from gpuyard.bus.nats_client import Connection
from gpuyard.bus.nats_pull import Position, Pull
from gpuyard.bus.port import From, Message
from gpuyard.bus.refusals import lost_data
from gpuyard.bus.wire import parse_headers
from gpuyard.contracts.errors import Conflict, Unavailable
from gpuyard.contracts.subjects import Stream

_FORGET_AFTER_NS = 30_000_000_000
_MAX_REQUEST_BYTES = 8 * 1024 * 1024


class NatsReader:
    """See `gpuyard.bus.port.Reader`."""

    window = 256
    request: Mapping[str, Any] = MappingProxyType({"max_bytes": _MAX_REQUEST_BYTES})

    def __init__(
        self,
        connection: Connection,
        jetstream: JetStream,
        stream: Stream,
        *subjects: str,
        start: From | int,
    ) -> None:
        self.backlog = 0
        self.stream = stream.name
        self.pull = Pull(connection, self)
        self._connection = connection
        self._jetstream = jetstream
        self._subjects = subjects
        self._start = start
        self._next_seq: int | None = None
        """Where to go on. None: at the start."""
        self._delivery = 0
        self._consumer = ""
        self._created = ""
        self._kept: deque[tuple[Message, int]] = deque()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        while not self._kept:
            await self.pull.arrival()
        message, pending = self._kept.popleft()
        if self.backlog:
            self.backlog = min(self.backlog - 1, pending)
        self.pull.refill()
        return message

    async def create_consumer(self) -> str:
        """Create a consumer that begins where this reader is."""
        try:
            info = await self._jetstream.api(f"STREAM.INFO.{self.stream}")
            self._check(info)
            await self._forget_consumer()
            self._consumer = self._connection.unique()
            consumer = await self._jetstream.api(
                f"CONSUMER.CREATE.{self.stream}.{self._consumer}", self._config(info["state"]["last_seq"])
            )
        except ApiError as error:
            if error.code == STREAM_NOT_FOUND and self._next_seq is not None:
                raise lost_data(self.stream, self._next_seq - 1, 0) from None
            raise plain_error(error, self.stream) from None
        self._begin(info, consumer["num_pending"])
        return self._consumer

    def take(self, subject: str, position: Position, payload: bytes, headers: bytes, reply: str) -> bool:
        """Keep the message if it is the consumer's next."""
        if position.delivery != self._delivery + 1:
            return False
        self._delivery += 1
        self._next_seq = position.seq + 1
        parsed = parse_headers(headers)[1] if headers else {}
        message = Message(subject, payload, parsed, seq=position.seq, at_s=position.at_s)
        self._kept.append((message, position.pending))
        return True

    def waiting(self) -> int:
        """Messages kept and not yet yielded."""
        return len(self._kept)

    def caught_up(self) -> None:
        """Whatever was counted and does not come was deleted meanwhile."""
        self.backlog = min(self.backlog, len(self._kept))

    async def close(self) -> None:
        """Leave nothing on the server."""
        self.pull.unbind()
        await self._forget_consumer()

    def _begin(self, info: dict[str, Any], pending: int) -> None:
        self._created = info["created"]
        self._delivery = 0
        self.backlog = pending + len(self._kept)
        if self._next_seq is None and not pending:
            self._next_seq = info["state"]["last_seq"] + 1

    def _check(self, info: dict[str, Any]) -> None:
        """Raise if the stream is not the one that was read so far."""
        last_seq = info["state"]["last_seq"]
        if self._next_seq is None and isinstance(self._start, int):
            self._next_seq = self._start
        if self._next_seq is not None and self._next_seq > last_seq + 1:
            raise lost_data(self.stream, self._next_seq - 1, last_seq)
        if self._created not in ("", info["created"]):
            raise Conflict(f"stream {self.stream} was created anew", "Read everything anew.")

    def _config(self, last_seq: int) -> dict[str, Any]:
        config: dict[str, Any] = {
            "name": self._consumer,
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _FORGET_AFTER_NS,
            **self._place(last_seq),
        }
        if self._subjects:
            config["filter_subjects"] = list(self._subjects)
        return {"stream_name": self.stream, "config": config}

    def _place(self, last_seq: int) -> dict[str, Any]:
        if self._next_seq is None and self._start == From.LAST_PER_SUBJECT:
            return {"deliver_policy": "last_per_subject", "filter_subjects": [">"]}
        if self._next_seq is None:
            self._next_seq = last_seq + 1 if self._start == From.NEW else 1
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": max(1, self._next_seq)}

    async def _forget_consumer(self) -> None:
        """It would go by itself, later; many reconnects must not pile up consumers."""
        if self._consumer:
            with suppress(Unavailable):
                await self._jetstream.hint(f"CONSUMER.DELETE.{self.stream}.{self._consumer}")
        self._consumer = ""
