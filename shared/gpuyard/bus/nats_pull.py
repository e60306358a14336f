"""Messages of one consumer, fetched ahead: the engine of readers and workers.

Pulled, not pushed: a push consumer that meets a full client skips messages for ever. Requests are renewed
while half of the window is still on its way, so that nobody waits for a message that is already there.
Whatever goes wrong (link lost, consumer gone, heartbeats missing, a gap) has one answer: bind anew.
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from gpuyard.bus.nats_client import Connection, Link
from gpuyard.bus.wire import parse_headers, publish_command
from gpuyard.contracts.errors import Conflict, GpuyardError, Unavailable

_EXPIRES_NS = 30_000_000_000
_HEARTBEAT_S = 2.0
_SILENCE_S = 2.5 * _HEARTBEAT_S
_STOP_S = 1.0
_PENDING = "Nats-Pending-Messages"

_log = logging.getLogger(__name__)


class Position(NamedTuple):
    """What the server says about a delivered message, in the subject of its acknowledgement."""

    tries: int
    seq: int
    delivery: int
    """Counts the consumer's deliveries."""
    at_s: float
    pending: int
    """Messages after this one."""


def position_of(ack_subject: str) -> Position:
    """Read `$JS.ACK.[domain.account.]stream.consumer.tries.seq.delivery.time.pending[.token]`."""
    tokens = ack_subject.split(".")
    first = 4 if len(tokens) == 9 else 6
    tries, seq, delivery, at_ns, pending = tokens[first : first + 5]
    return Position(int(tries), int(seq), int(delivery), int(at_ns) / 1e9, int(pending))


class Source(Protocol):
    """What a pull is for: where its messages come from and go to."""

    stream: str
    window: int
    request: Mapping[str, Any]
    """Additional fields of a pull request."""

    async def create_consumer(self) -> str:
        """Make sure that there is a consumer that goes on where we are, and return its name."""
        ...

    def take(self, subject: str, position: Position, payload: bytes, headers: bytes, reply: str) -> bool:
        """Keep a message; False: it does not fit to those before."""
        ...

    def waiting(self) -> int:
        """Messages kept and not used yet."""
        ...

    def caught_up(self) -> None:
        """The server has nothing more at the moment."""
        ...


class Pull:
    """Keeps the messages coming."""

    def __init__(self, connection: Connection, source: Source) -> None:
        self.error: GpuyardError | None = None
        self._connection = connection
        self._source = source
        self._arrived = asyncio.Event()
        self._broken = asyncio.Event()
        self._on_its_way = 0
        self._heard_at_s = 0.0
        self._link: Link | None = None
        self._sid = 0
        self._inbox = ""
        self._next_subject = ""
        self._now_s: Callable[[], float] = asyncio.get_running_loop().time

    async def start(self) -> None:
        """Start the flow of messages.

        Raises:
            GpuyardError: it can't be started now.

        """
        try:
            await self._bind()
        except Conflict as error:
            self.error = error

    async def _bind(self) -> None:
        self._broken.clear()
        consumer = await self._source.create_consumer()
        self._link = link = await self._connection.link(self._now_s() + 1.0)
        self._inbox = self._connection.new_inbox()
        self._sid = link.listen(self._inbox, self._sink)
        self._next_subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._source.stream}.{consumer}"
        self._on_its_way = 0
        self._heard_at_s = self._now_s()
        self.refill()

    async def keep(self) -> None:
        """Bind anew whenever the flow breaks, until an error that binding can't mend."""
        self._connection.on_loss.add(self.break_off)
        try:
            while self.error is None:
                await self._until_broken()
                self.unbind()
                await self._rebind()
        finally:
            self._connection.on_loss.discard(self.break_off)
            self._arrived.set()

    async def stop(self) -> None:
        """End the flow; what was on its way still goes to the source."""
        if self._link is not None and not self._link.lost.is_set():
            self._link.mute(self._sid)
            await self._link.roundtrip(_STOP_S)
        self.unbind()

    async def arrival(self) -> None:
        """Wait until something may have arrived.

        Raises:
            GpuyardError: nothing ever will.

        """
        if self.error is not None:
            raise self.error
        self._arrived.clear()
        await self._arrived.wait()

    def refill(self) -> None:
        """Ask for more once half of the window is used up."""
        kept = self._on_its_way + self._source.waiting()
        if self._link is None or self._broken.is_set() or kept > self._source.window // 2:
            return
        batch = self._source.window - kept
        self._on_its_way += batch
        request = {"batch": batch, "expires": _EXPIRES_NS, "idle_heartbeat": round(_HEARTBEAT_S * 1e9)}
        body = json.dumps({**request, **self._source.request}).encode()
        self._link.send(publish_command(self._next_subject, body, reply=self._inbox))

    def break_off(self) -> None:
        """Let the flow begin anew."""
        self._broken.set()

    def unbind(self) -> None:
        """End the flow at once."""
        if self._link is not None:
            self._link.unlisten(self._sid)
        self._link = None

    async def _until_broken(self) -> None:
        while not self._broken.is_set():
            try:
                async with asyncio.timeout(_HEARTBEAT_S):
                    await self._broken.wait()
            except TimeoutError:
                if self._on_its_way > 0 and self._now_s() - self._heard_at_s > _SILENCE_S:
                    _log.warning("no heartbeat from stream %s, reading it anew", self._source.stream)
                    return

    async def _rebind(self) -> None:
        try:
            await self._connection.link()
            await self._bind()
        except Unavailable as error:
            _log.warning("stream %s: %s", self._source.stream, error.message)
            self._broken.set()
            await asyncio.sleep(random.uniform(0.1, 1.0))  # noqa: S311 - no secret
        except GpuyardError as error:
            self.error = error

    def _sink(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        if self._broken.is_set():
            return
        self._heard_at_s = self._now_s()
        if not reply.startswith("$JS.ACK."):
            self._take_status(headers)
            return
        self._on_its_way -= 1
        if self._source.take(subject, position_of(reply), payload, headers, reply):
            self._arrived.set()
        else:
            self.break_off()

    def _take_status(self, block: bytes) -> None:
        status, headers = parse_headers(block)
        if status == "100":
            self._source.caught_up()
        elif _PENDING in headers:
            self._on_its_way -= int(headers[_PENDING])
            self.refill()
        else:
            self.break_off()
