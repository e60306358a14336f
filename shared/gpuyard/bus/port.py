"""What the services need from a message bus: a Protocol with a NATS and an in-memory implementation.

Three families: *messaging* (core subjects, at most once), *streams* (durable, on disk when acknowledged),
*objects* (large uploads). One contract suite runs on both implementations: tests/contract/test_bus.py.

Errors: every call raises `Unavailable` when the bus can't answer in time (the outcome of a write is then
unknown), `Conflict` when an expectation did not hold (nothing was written), `InvalidSpec` when a message is
larger than the bus takes. Calls never hang: each has a deadline.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from gpuyard.contracts.subjects import Stream


@dataclass(frozen=True, slots=True)
class Message:
    """A message as received. `seq` and `at_s` are the stream's; 0 on core subjects."""

    subject: str
    payload: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    reply: str = ""
    seq: int = 0
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Expect:
    """Write only if `subject`'s newest message has sequence `seq` (0: there is none).

    `subject` may differ from the one written to: that is a fence. It must be in the same stream.
    """

    subject: str
    seq: int


@dataclass(frozen=True, slots=True)
class Appended:
    """The message is on disk. `duplicate`: one with the same message id was there before."""

    seq: int
    duplicate: bool = False


class From(StrEnum):
    """Where a reader begins."""

    FIRST = "first"
    NEW = "new"
    LAST_PER_SUBJECT = "last_per_subject"
    """The newest message of each subject, then everything that follows: a snapshot that stays current."""


class Subscription(Protocol):
    """Messages of a core subject as they come. A slow reader loses the oldest; `missed` counts them."""

    missed: int

    def __aiter__(self) -> AsyncIterator[Message]: ...
    async def __anext__(self) -> Message: ...


class Reader(Protocol):
    """Messages of a stream in order, without loss or repeat, across reconnects, for ever.

    If the stream is found behind what was already read (the server lost data), iteration raises `Conflict`:
    read everything anew.
    """

    backlog: int
    """Messages that were there at the beginning and have not been yielded yet. 0: caught up."""

    def __aiter__(self) -> AsyncIterator[Message]: ...
    async def __anext__(self) -> Message: ...


class Delivery(Protocol):
    """A message of a work queue. It comes again unless one of these is called in time."""

    @property
    def message(self) -> Message: ...
    @property
    def tries(self) -> int: ...
    async def ack(self) -> None: ...
    async def nak(self, delay_s: float = 0.0) -> None: ...
    async def working(self) -> None: ...


class Work(Protocol):
    """Deliveries of a work queue, shared with every other worker of the same name."""

    def __aiter__(self) -> AsyncIterator[Delivery]: ...
    async def __anext__(self) -> Delivery: ...


class Messaging(Protocol):
    @property
    def connected(self) -> bool:
        """Whether the bus answered lately."""
        ...

    def new_inbox(self) -> str:
        """A subject of one's own, for answers."""
        ...

    async def publish(
        self, subject: str, payload: bytes, *, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send to whoever listens now. May be lost."""
        ...

    async def request(
        self, subject: str, payload: bytes, *, timeout_s: float, headers: Mapping[str, str] | None = None
    ) -> Message:
        """Send and wait for one answer."""
        ...

    def subscribe(self, subject: str, *, group: str = "") -> AbstractAsyncContextManager[Subscription]:
        """Listen from now on; within a group each message goes to one member."""
        ...


class Streams(Protocol):
    async def ensure(self, streams: Iterable[Stream]) -> None:
        """Create the streams, or bring existing ones to these settings."""
        ...

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
        """Write durably. With the same `msg_id` within two minutes, a repeat writes nothing.

        `ttl_s` is rounded up to whole seconds, at least 1.
        """
        ...

    async def last(self, stream: Stream, subject: str) -> Message | None:
        """The newest message of a subject; None if there is none or it expired."""
        ...

    def read(
        self, stream: Stream, *subjects: str, start: From | int = From.FIRST
    ) -> AbstractAsyncContextManager[Reader]:
        """Read from the beginning, from now, from snapshots, or from a sequence on; then stay."""
        ...

    def work(
        self,
        stream: Stream,
        worker: str,
        *,
        subject: str = "",
        ack_wait_s: float = 30.0,
        max_pending: int = 256,
    ) -> AbstractAsyncContextManager[Work]:
        """Share a durable queue named `worker` over the messages of `subject` (default: the whole stream)."""
        ...

    async def trim(self, stream: Stream, *, subject: str = "", before_seq: int | None = None) -> None:
        """Delete messages: of a subject, or older than a sequence, or both."""
        ...


class Objects(Protocol):
    async def put_object(self, bucket: str, name: str, data: bytes) -> None:
        """Store; storing the same name again replaces it. A full bucket drops its oldest objects."""
        ...

    async def get_object(self, bucket: str, name: str) -> bytes | None:
        """Fetch; None if there is none."""
        ...

    async def has_object(self, bucket: str, name: str) -> bool:
        """Whether it is there, without fetching it. If so, it counts as just stored."""
        ...


class Bus(Messaging, Streams, Objects, Protocol):
    """All of it, over one connection."""
