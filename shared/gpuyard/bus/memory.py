"""The bus inside one process: same promises as the NATS one, no server. Services are tested on it.

Time comes from two callables, so that tests can make an ack timeout or an expiry happen at once.
"""

import asyncio
import itertools
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from gpuyard.bus.mailbox import Mailbox
from gpuyard.bus.memory_log import Log, Queue
from gpuyard.bus.port import Appended, Delivery, Expect, From, Message, Reader, Subscription, Work
from gpuyard.bus.refusals import (
    full,
    lost_data,
    no_answer,
    no_stream,
    no_stream_for,
    nobody_answers,
    refuse_to_read_queue,
)
from gpuyard.bus.wire import check_pattern, check_size, check_subject, matches, render_headers
from gpuyard.contracts.subjects import MAX_BUCKET_BYTES, Stream

_T = TypeVar("_T")


class MemoryBus:
    """A bus for tests and for services that share one process.

    Args:
        now: Seconds since the epoch.
        sleep: Waits; must go by the same clock as `now`.

    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.connected = True
        self.now = now
        self._sleep = sleep
        self._logs: dict[str, Log] = {}
        self._queues: dict[tuple[str, str], Queue] = {}
        self._lines: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self.bucket_bytes = MAX_BUCKET_BYTES
        """How much a bucket holds."""
        self._buckets: defaultdict[str, dict[str, bytes]] = defaultdict(dict)
        """Objects of each, the oldest first."""
        self._subscriptions: list[_Subscription] = []
        self._turns: defaultdict[str, int] = defaultdict(int)
        self._inboxes = itertools.count(1)
        self._waiters: list[asyncio.Future[None]] = []

    # Messaging

    def new_inbox(self) -> str:
        return f"_INBOX.memory.{next(self._inboxes)}"

    async def publish(
        self, subject: str, payload: bytes, *, headers: Mapping[str, str] | None = None
    ) -> None:
        self._publish(subject, payload, headers)
        await _turn()

    async def request(
        self, subject: str, payload: bytes, *, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> Message:
        inbox = self.new_inbox()
        async with self.subscribe(inbox) as answers:
            if not self._publish(subject, payload, headers, inbox):
                raise nobody_answers(subject)
            answer = await self.in_time(asyncio.ensure_future(anext(answers)), timeout_s)
            if answer is None:
                raise no_answer(subject, timeout_s)
            return answer

    @asynccontextmanager
    async def subscribe(self, subject: str, *, group: str = "") -> AsyncIterator[Subscription]:
        check_pattern(subject)
        subscription = _Subscription(subject, group)
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)

    # Streams

    async def ensure(self, streams: Iterable[Stream]) -> None:
        for stream in streams:
            self._logs.setdefault(stream.name, Log(stream)).stream = stream

    async def append(
        self,
        subject: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        msg_id: str = "",
        expect: Expect | None = None,
        ttl_s: float | None = None,
        timeout_s: float = 5.0,
    ) -> Appended:
        _check_message(subject, payload, headers)
        log = self._log_of(subject)
        if log is None:
            raise no_stream_for(subject)
        appended = log.append(
            subject,
            payload,
            dict(headers or {}),
            now_s=self.now(),
            msg_id=msg_id,
            expect=expect,
            ttl_s=ttl_s,
        )
        if not appended.duplicate:
            self.wake()
            self._deliver(Message(subject, payload, headers or {}))
        await _turn()
        return appended

    async def last(self, stream: Stream, subject: str) -> Message | None:
        return self._log(stream).newest(subject)

    @asynccontextmanager
    async def read(
        self, stream: Stream, *subjects: str, start: From | int = From.FIRST
    ) -> AsyncIterator[Reader]:
        log = self._log(stream)
        refuse_to_read_queue(stream)
        yield _Reader(self, log, subjects or log.stream.subjects, start)

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
        log = self._log(stream)
        queue = self._queues.setdefault(
            (stream.name, worker), Queue(log, subject or ">", ack_wait_s, max_pending)
        )
        queue.pattern, queue.ack_wait_s, queue.max_pending = subject or ">", ack_wait_s, max_pending
        yield _Work(self, queue, self._lines[stream.name, worker])

    async def trim(self, stream: Stream, *, subject: str = "", before_seq: int | None = None) -> None:
        self._log(stream).trim(subject, before_seq)
        self.wake()

    # Objects

    async def put_object(self, bucket: str, name: str, data: bytes) -> None:
        objects = self._buckets[bucket]
        if len(data) > self.bucket_bytes:
            raise full(bucket)
        objects.pop(name, None)
        while sum(map(len, objects.values())) + len(data) > self.bucket_bytes:
            del objects[next(iter(objects))]
        objects[name] = bytes(data)

    async def get_object(self, bucket: str, name: str) -> bytes | None:
        return self._buckets[bucket].get(name)

    async def has_object(self, bucket: str, name: str) -> bool:
        objects = self._buckets[bucket]
        if name not in objects:
            return False
        objects[name] = objects.pop(name)
        return True

    # Inside

    def _publish(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None, reply: str = ""
    ) -> int:
        """Deliver and, as the server does, store if a stream takes the subject. Returns who got it."""
        _check_message(subject, payload, headers)
        log = self._log_of(subject)
        if log is not None:
            log.append(subject, payload, dict(headers or {}), now_s=self.now())
            self.wake()
        return self._deliver(Message(subject, payload, headers or {}, reply))

    def _deliver(self, message: Message) -> int:
        fitting = [one for one in self._subscriptions if matches(one.pattern, message.subject)]
        groups = {one.group for one in fitting if one.group}
        chosen = [one for one in fitting if not one.group]
        for group in groups:
            members = [one for one in fitting if one.group == group]
            chosen.append(members[self._turns[group] % len(members)])
            self._turns[group] += 1
        for subscription in chosen:
            subscription.put(message)
        return len(chosen)

    def _log(self, stream: Stream) -> Log:
        log = self._logs.get(stream.name)
        if log is None:
            raise no_stream(stream.name)
        log.expire(self.now())
        return log

    def _log_of(self, subject: str) -> Log | None:
        for log in self._logs.values():
            if any(matches(pattern, subject) for pattern in log.stream.subjects):
                return log
        return None

    def wake(self) -> None:
        """Let all who wait for a change look again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def change(self, by_s: float | None) -> None:
        """Wait until something changes, or until the clock shows `by_s`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            if by_s is None:
                await waiter
            else:
                await self.in_time(waiter, max(0.0, by_s - self.now()))
        finally:
            self._waiters.remove(waiter)

    async def in_time(self, work: asyncio.Future[_T], timeout_s: float) -> _T | None:
        timer = asyncio.ensure_future(self._sleep(timeout_s))
        try:
            await asyncio.wait((work, timer), return_when=asyncio.FIRST_COMPLETED)
            return work.result() if work.done() else None
        finally:
            work.cancel()
            timer.cancel()


class _Subscription(Mailbox):
    def __init__(self, pattern: str, group: str) -> None:
        super().__init__()
        self.pattern = pattern
        self.group = group


class _Reader:
    def __init__(self, bus: MemoryBus, log: Log, patterns: tuple[str, ...], start: From | int) -> None:
        self._bus = bus
        self._log = log
        self._patterns = patterns
        self._position = log.last_seq
        self._waiting: deque[int] = deque()
        """Sequences of the messages that were there at the beginning."""
        if start == From.LAST_PER_SUBJECT:
            self._waiting.extend(log.newest_of_each(patterns))
        elif start != From.NEW:
            first = 1 if start == From.FIRST else int(start)
            self._position = max(log.last_seq, first - 1)
            self._waiting.extend(log.between(first, patterns))
        self.backlog = len(self._waiting)

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        while True:
            if self._position > self._log.last_seq:
                raise lost_data(self._log.stream.name, self._position, self._log.last_seq)
            message = self._next()
            if message is not None:
                return message
            await self._bus.change(None)

    def _next(self) -> Message | None:
        self._log.expire(self._bus.now())
        while self._waiting:
            seq = self._waiting.popleft()
            self.backlog = len(self._waiting)
            if seq in self._log:
                return self._log[seq]
        message = self._log.next_after(self._position, self._patterns)
        self._position = message.seq if message else self._log.last_seq
        return message


class _Work:
    def __init__(self, bus: MemoryBus, queue: Queue, line: asyncio.Lock) -> None:
        self._bus = bus
        self._queue = queue
        self._line = line
        """Workers stand in line, so that a quick one does not take everything."""

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self

    async def __anext__(self) -> Delivery:
        async with self._line:
            while True:
                self._queue.log.expire(self._bus.now())
                taken = self._queue.take(self._bus.now())
                if taken is not None:
                    return _Delivery(self._bus, self._queue, *taken)
                await self._bus.change(self._queue.next_due_s())


@dataclass(frozen=True)
class _Delivery:
    _bus: MemoryBus
    _queue: Queue
    message: Message
    tries: int

    async def ack(self) -> None:
        self._queue.ack(self.message.seq)
        self._bus.wake()
        await _turn()

    async def nak(self, delay_s: float = 0.0) -> None:
        self._queue.postpone(self.message.seq, self._bus.now() + delay_s)
        self._bus.wake()
        await _turn()

    async def working(self) -> None:
        self._queue.postpone(self.message.seq, self._bus.now() + self._queue.ack_wait_s)


async def _turn() -> None:
    """Let others run, as a call to a server would."""
    await asyncio.sleep(0)


def _check_message(subject: str, payload: bytes, headers: Mapping[str, str] | None) -> None:
    check_subject(subject)
    check_size(render_headers(headers), payload)
