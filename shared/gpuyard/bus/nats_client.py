"""The connection to NATS: the one file that imports nats-py.

nats-py does the handshake, parses and pings. Everything in which it can hang, lose messages silently or give
up for ever is replaced (docs/decisions/0002-nats-py-rules.md): a `Link` is never repaired. When it is lost,
for whatever reason, `Connection` builds the next one and puts everything that was open back on it.
"""

import asyncio
import itertools
import logging
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

from nats.aio.client import Client
from nats.aio.transport import TcpTransport
from nats.errors import Error, NoServersError

from gpuyard.bus.address import servers_of, without_token
from gpuyard.bus.wire import publish_command
from gpuyard.contracts.errors import Unavailable

Answer = tuple[bytes, bytes]
"""Payload and header block."""
Sink = Callable[[str, str, bytes, bytes], None]
"""Takes subject, reply subject, payload and header block. Must neither wait nor raise."""

_CONNECT_TIMEOUT_S = 2
_OPEN_TIMEOUT_S = 10.0
_PING_INTERVAL_S = 5
_PINGS_UNANSWERED = 2
_SHORTEST_WAIT_S = 0.2
_LONGEST_WAIT_S = 5.0
_CROWD_BYTES = 64 * 1024
_CONGESTED_BYTES = 4 * 1024 * 1024

_log = logging.getLogger(__name__)


class LinkLost(Exception):
    """The connection broke while an answer was awaited."""


class Link(Client):
    """One connection, from handshake to loss."""

    def __init__(self, on_lost: Callable[["Link"], None]) -> None:
        super().__init__()
        self.problem: Exception | None = None
        self.lost = asyncio.Event()
        self._on_lost = on_lost
        self._sinks: dict[int, Sink] = {}
        self._sids = itertools.count(1)
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._settling: asyncio.Future[None] | None = None

    async def open(self, servers: list[str], name: str) -> None:
        try:
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                await self.connect(
                    servers=servers,
                    name=name,
                    error_cb=self._note,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=_CONNECT_TIMEOUT_S,
                    ping_interval=_PING_INTERVAL_S,
                    max_outstanding_pings=_PINGS_UNANSWERED,
                )
        except BaseException:
            self.abort()
            raise

    @property
    def answers(self) -> bool:
        """Whether the server answered the ping before last."""
        return bool(self.is_connected and self._pings_outstanding < _PINGS_UNANSWERED)

    @property
    def is_congested(self) -> bool:
        """Whether the server takes data more slowly than it is handed over."""
        return self._writer.transport.get_write_buffer_size() > _CONGESTED_BYTES

    @property
    def is_crowded(self) -> bool:
        """Whether much was handed over in this turn of the loop and waits for its end."""
        return self._out_bytes > _CROWD_BYTES

    def send(self, command: bytes) -> None:
        """Hand a command over; it leaves with all others of this turn of the loop."""
        if not self._out:
            asyncio.get_running_loop().call_soon(self._write_out)
        self._out.append(command)
        self._out_bytes += len(command)

    def listen(self, pattern: str, sink: Sink, group: str = "") -> int:
        sid = next(self._sids)
        self._sinks[sid] = sink
        self.send(f"SUB {pattern} {group} {sid}\r\n".encode())
        return sid

    def mute(self, sid: int) -> None:
        """Ask for no more; what is on its way still comes."""
        self.send(f"UNSUB {sid}\r\n".encode())

    def unlisten(self, sid: int) -> None:
        self.mute(sid)
        self._sinks.pop(sid, None)

    async def roundtrip(self, timeout_s: float) -> None:
        """Wait until the server has dealt with everything sent before, but no longer than the timeout."""
        if self.is_closed:
            return
        self._write_out()
        pong: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._pongs.append(pong)
        self._writer.write(b"PING\r\n")
        await asyncio.wait((pong,), timeout=timeout_s)

    async def drained(self) -> None:
        """Wait until the server has taken most of what was handed over."""
        try:
            await self._writer.drain()
        except OSError as error:
            raise LinkLost from error

    @property
    def _writer(self) -> asyncio.StreamWriter:
        assert isinstance(self._transport, TcpTransport), "only TCP and TLS are used"
        writer = self._transport._io_writer
        assert writer is not None, "not connected"
        return writer

    def _write_out(self) -> None:
        if self._out and not self.is_closed:
            self._writer.writelines(self._out)
        self._out = []
        self._out_bytes = 0

    def abort(self) -> None:
        """End at once, whatever the server does."""
        if self.lost.is_set():
            return
        self.lost.set()
        self._status = Client.CLOSED
        current = asyncio.current_task()
        for task in (self._reading_task, self._ping_interval_task, self._flusher_task):
            if task is not None and task is not current:
                task.cancel()
        if self._transport:
            self._writer.transport.abort()
            self._settling = asyncio.ensure_future(_settled(self._writer))
        for pong in self._pongs:
            pong.cancel()
        self._on_lost(self)

    async def _note(self, error: Exception) -> None:
        if not isinstance(error, NoServersError):
            self.problem = error
        if "permissions violation" in str(error):
            _log.error("the bus forbids: %s; grant it to this service's user", error)

    # What follows replaces methods of nats-py.

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        """The original waits for a stalled server to take what is buffered: for ever."""
        self.problem = self._err or self.problem
        self.abort()

    async def _read_loop(self) -> None:
        """The original can end without a word; then nothing would be received and nobody would know."""
        await super()._read_loop()
        self.abort()

    async def _send_command(self, cmd: bytes, priority: bool = False) -> None:
        """The original waits, without end, when much is buffered, and swallows cancellation meanwhile."""
        self.send(cmd)

    async def _flush_pending(self, force_flush: bool = False) -> None:
        """Nothing is pending: `send` takes care of it."""

    async def _process_pong(self) -> None:
        """The original fails on a pong that comes after its waiter gave up, and takes the read loop along."""
        if self._pongs:
            waiter = self._pongs.pop(0)
            if not waiter.done():
                waiter.set_result(True)
        self._pings_outstanding = 0

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None
    ) -> None:
        """The original queues for a task per subscription; a sink is called at once."""
        sink = self._sinks.get(sid)
        if sink is not None:
            # Nobody checks that what others send is UTF-8.
            sink(subject.decode(errors="replace"), reply.decode(errors="replace"), data, headers or b"")


@dataclass(eq=False)
class Listening:
    """A subscription that is put on every new link."""

    pattern: str
    sink: Sink
    group: str = ""
    sid: int = field(default=0, init=False)


class Connection:
    """Has a link, or is about to have one."""

    def __init__(self, url: str, name: str, inbox_prefix: str, *, patient: bool = False) -> None:
        self.inbox = f"{inbox_prefix}.{uuid4().hex[:12]}"
        self.on_loss: set[Callable[[], None]] = set()
        self._servers = servers_of(url)
        self._name = name
        self._link: Link | None = None
        self._up = asyncio.Event()
        self._problem: Exception | None = None
        self._tells = patient
        """Whether failures go to the log; whoever waits only for a while gets them as an error."""
        self._listenings: dict[Listening, None] = {}
        self._tokens = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._answers_at = f"{self.inbox}.a."
        self.listen(Listening(f"{self._answers_at}*", self._take_answer))

    @property
    def connected(self) -> bool:
        return self._link is not None and self._link.answers

    def unique(self) -> str:
        """A token that no one else has."""
        return f"{self.inbox[-12:]}-{next(self._tokens)}"

    def new_inbox(self) -> str:
        return f"{self.inbox}.{next(self._tokens)}"

    async def keep(self) -> None:
        """Connect and, whenever the link is lost, connect again, for ever."""
        failures = 0
        while True:
            link = Link(self._drop)
            try:
                await link.open(self._servers, self._name)
            except (OSError, TimeoutError, Error) as error:
                self._failed(link.problem or error, failures)
                failures += 1
            else:
                failures = 0
                self._adopt(link)
                await link.lost.wait()
                self._drop(link)
                _log.warning("%s: lost the bus: %s", self._name, link.problem or "closed")
            await asyncio.sleep(_wait_s(failures))

    async def finish(self) -> None:
        """Let the server deal with what was sent."""
        if self._link is not None:
            await self._link.roundtrip(1.0)

    def abort(self) -> None:
        if self._link is not None:
            self._link.abort()

    async def link(self, by_s: float | None = None) -> Link:
        """The link, once there is one that takes data; `by_s` is on the loop's clock.

        Raises:
            Unavailable: not in time.

        """
        if self._link is not None and self._link.is_crowded:
            await asyncio.sleep(0)
        if self._link is not None and not self._link.is_congested:
            return self._link
        try:
            async with asyncio.timeout_at(by_s):
                return await self._free_link()
        except TimeoutError:
            raise self.unavailable() from None

    def unavailable(self) -> Unavailable:
        problem = "" if self._link else str(self._problem or "")
        why = f" ({problem})" if problem else ""
        where = ", ".join(map(without_token, self._servers))
        return Unavailable(
            f"the bus at {where} does not answer{why}",
            "Is nats-server running there? `gpuyard doctor` shows what is wrong.",
        )

    async def ask(self, link: Link, subject: str, payload: bytes, headers: bytes, timeout_s: float) -> Answer:
        """Send, and wait for one answer.

        Raises:
            LinkLost: the connection broke meanwhile.
            TimeoutError: no answer in time.

        """
        if link.lost.is_set():
            raise LinkLost
        loop = asyncio.get_running_loop()
        token = str(next(self._tokens))
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting[token] = answer
        timer = loop.call_later(timeout_s, _give_up, answer)
        try:
            link.send(publish_command(subject, payload, headers, f"{self._answers_at}{token}"))
            return await answer
        finally:
            timer.cancel()
            del self._waiting[token]

    def listen(self, listening: Listening) -> None:
        self._listenings[listening] = None
        if self._link is not None:
            listening.sid = self._link.listen(listening.pattern, listening.sink, listening.group)

    def unlisten(self, listening: Listening) -> None:
        del self._listenings[listening]
        if self._link is not None:
            self._link.unlisten(listening.sid)

    async def _free_link(self) -> Link:
        while True:
            await self._up.wait()
            link = self._link
            if link is None:  # lost again before its waiters woke up
                continue
            if not link.is_congested:
                return link
            with suppress(LinkLost):
                await link.drained()

    def _adopt(self, link: Link) -> None:
        self._link = link
        self._tells = True
        self._problem = None
        for listening in self._listenings:
            listening.sid = link.listen(listening.pattern, listening.sink, listening.group)
        self._up.set()

    def _drop(self, link: Link) -> None:
        if link is not self._link:
            return
        self._link = None
        self._up.clear()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(LinkLost())
        for notify in tuple(self.on_loss):
            notify()

    def _failed(self, error: Exception, failures: int) -> None:
        self._problem = error
        if self._tells and failures % 20 == 0:
            _log.warning("%s: %s", self._name, self.unavailable().message)

    def _take_answer(self, subject: str, reply: str, payload: bytes, headers: bytes) -> None:
        answer = self._waiting.get(subject[len(self._answers_at) :])
        if answer is not None and not answer.done():
            answer.set_result((payload, headers))


async def _settled(writer: asyncio.StreamWriter) -> None:
    """Take note of how the socket ended; asyncio complains on stderr about an error nobody looked at."""
    with suppress(OSError):
        await writer.wait_closed()


def _give_up(answer: asyncio.Future[Answer]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _wait_s(failures: int) -> float:
    """Jitter, so that many clients don't come back at the same moment."""
    most_s = min(_LONGEST_WAIT_S, _SHORTEST_WAIT_S * 2 ** (failures + 1))
    return random.uniform(_SHORTEST_WAIT_S, most_s)  # noqa: S311 - no secret
