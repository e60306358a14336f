"""The bus on NATS with JetStream.

An append waits for the server's acknowledgement, which comes once the message is on disk. Everything that is
open goes on by itself when the connection breaks; every call has a deadline.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from gpuyard.bus.jetstream import (
    ASK_TIMEOUT_S,
    ApiError,
    JetStream,
    plain_error,
    stream_config,
)
from gpuyard.bus.mailbox import Mailbox
from gpuyard.bus.nats_append import Appender, mortal
from gpuyard.bus.nats_client import Connection, LinkLost, Listening
from gpuyard.bus.nats_objects import NatsObjects
from gpuyard.bus.nats_reader import NatsReader
from gpuyard.bus.nats_work import NatsWork
from gpuyard.bus.port import Appended, Expect, From, Message, Reader, Subscription, Work
from gpuyard.bus.refusals import no_answer, nobody_answers, refuse_to_read_queue
from gpuyard.bus.wire import (
    check_pattern,
    check_size,
    check_subject,
    parse_headers,
    publish_command,
    render_headers,
)
from gpuyard.contracts.errors import Conflict
from gpuyard.contracts.ids import slug
from gpuyard.contracts.subjects import Stream

_PUBLISH_TIMEOUT_S = 5.0


@asynccontextmanager
async def connect(
    url: str,
    name: str,
    *,
    inbox_prefix: str = "",
    connect_timeout_s: float = 5.0,
    replicas: int = 1,
    forever: bool = False,
) -> AsyncIterator["NatsBus"]:
    """Connect, and stay connected.

    Args:
        url: `nats://TOKEN@HOST:PORT`, or several of them, separated by commas.
        name: Shown in the server's listings.
        inbox_prefix: Under which answers come; default: one of this name's own.
        connect_timeout_s: How long the first connection may take.
        replicas: Copies of each stream that `ensure` creates.
        forever: Keep trying instead: for services, which may start before the server.

    Raises:
        Unavailable: nobody answers at that address, or not to us.

    """
    connection = Connection(url, name, inbox_prefix or f"_INBOX_{slug(name)}", patient=forever)
    keeper = asyncio.ensure_future(connection.keep())
    try:
        await connection.link(None if forever else asyncio.get_running_loop().time() + connect_timeout_s)
        yield NatsBus(connection, replicas)
        await connection.finish()
    finally:
        await _end(keeper)
        connection.abort()


class NatsBus:
    """See `gpuyard.bus.port.Bus`."""

    def __init__(self, connection: Connection, replicas: int) -> None:
        self._connection = connection
        self._replicas = replicas
        self._jetstream = JetStream(connection)
        self._appender = Appender(self._jetstream)
        self._objects = NatsObjects(self, self._jetstream, self._appender, replicas)

    # Messaging

    @property
    def connected(self) -> bool:
        return self._connection.connected

    def new_inbox(self) -> str:
        return self._connection.new_inbox()

    async def publish(
        self, subject: str, payload: bytes, *, headers: Mapping[str, str] | None = None
    ) -> None:
        check_subject(subject)
        block = render_headers(headers)
        check_size(block, payload)
        link = await self._connection.link(asyncio.get_running_loop().time() + _PUBLISH_TIMEOUT_S)
        check_size(block, payload, link.max_payload)
        link.send(publish_command(subject, payload, block))

    async def request(
        self, subject: str, payload: bytes, *, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> Message:
        check_subject(subject)
        block = render_headers(headers)
        by_s = asyncio.get_running_loop().time() + timeout_s
        link = await self._connection.link(by_s)
        check_size(block, payload, link.max_payload)
        try:
            answer, answer_block = await self._connection.ask(
                link, subject, payload, block, timeout_s=timeout_s
            )
        except TimeoutError:
            raise no_answer(subject, timeout_s) from None
        except LinkLost:
            raise self._connection.unavailable() from None
        status, answer_headers = parse_headers(answer_block)
        if status == "503":
            raise nobody_answers(subject)
        return Message("", answer, answer_headers)

    @asynccontextmanager
    async def subscribe(self, subject: str, *, group: str = "") -> AsyncIterator[Subscription]:
        check_pattern(subject)
        mailbox = Mailbox()

        def keep(subject: str, reply: str, payload: bytes, headers: bytes) -> None:
            parsed = parse_headers(headers)[1] if headers else {}
            mailbox.put(Message(subject, payload, parsed, reply))

        listening = Listening(subject, keep, group)
        self._connection.listen(listening)
        try:
            yield mailbox
        finally:
            self._connection.unlisten(listening)

    # Streams

    async def ensure(self, streams: Iterable[Stream]) -> None:
        for stream in streams:
            config = stream_config(stream, self._replicas)
            try:
                await self._jetstream.create_or_update(config)
            except ApiError as error:
                raise Conflict(
                    f"stream {stream.name} can't be brought to its settings: {error}",
                    "Another system may use the same subjects or stream names on this server.",
                ) from None

    async def append(
        self,
        subject: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        msg_id: str = "",
        expect: Expect | None = None,
        ttl_s: float | None = None,
        timeout_s: float = ASK_TIMEOUT_S,
    ) -> Appended:
        return await self._appender.append(
            subject,
            payload,
            {**(headers or {}), **mortal(ttl_s)},
            msg_id=msg_id,
            expect=expect,
            timeout_s=timeout_s,
        )

    async def last(self, stream: Stream, subject: str) -> Message | None:
        return await self._jetstream.last(stream.name, subject)

    @asynccontextmanager
    async def read(
        self, stream: Stream, *subjects: str, start: From | int = From.FIRST
    ) -> AsyncIterator[Reader]:
        refuse_to_read_queue(stream)
        reader = NatsReader(self._connection, self._jetstream, stream, *subjects, start=start)
        async with _flowing(reader):
            yield reader

    @asynccontextmanager
    async def work(
        self,
        stream: Stream,
        worker: str,
        *,
        subject: str = "",
        ack_wait_s: float = 30.0,
        max_pending: int = 256,
    ) -> AsyncIterator[Work]:
        work = NatsWork(
            self._connection,
            self._jetstream,
            stream,
            worker,
            subject=subject,
            ack_wait_s=ack_wait_s,
            max_pending=max_pending,
        )
        async with _flowing(work):
            yield work

    async def trim(self, stream: Stream, *, subject: str = "", before_seq: int | None = None) -> None:
        what: dict[str, object] = {}
        if subject:
            what["filter"] = subject
        if before_seq is not None:
            what["seq"] = before_seq
        try:
            await self._jetstream.api(f"STREAM.PURGE.{stream.name}", what)
        except ApiError as error:
            raise plain_error(error, stream.name) from None

    # Objects

    async def put_object(self, bucket: str, name: str, data: bytes) -> None:
        await self._objects.put(bucket, name, data)

    async def get_object(self, bucket: str, name: str) -> bytes | None:
        return await self._objects.get(bucket, name)

    async def has_object(self, bucket: str, name: str) -> bool:
        return await self._objects.has(bucket, name)


async def _end(task: asyncio.Future[None]) -> None:
    """Cancel until it is over: nats-py swallows a cancellation that meets one of its time-outs."""
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=1.0)


@asynccontextmanager
async def _flowing(source: NatsReader | NatsWork) -> AsyncIterator[None]:
    """Let messages come until the context ends."""
    await source.pull.start()
    keeper = asyncio.ensure_future(source.pull.keep())
    try:
        yield
    finally:
        await _end(keeper)
        await source.close()
