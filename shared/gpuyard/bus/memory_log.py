"""A stream and its work queues as plain data: the rules of JetStream without server, loop or clock.

`now_s` comes in with every call, so that time is a value. Appending costs O(log n), reading on O(1).
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpuyard.bus.port import Appended, Expect, Message
from gpuyard.bus.refusals import conflict, full
from gpuyard.bus.wire import DUPLICATE_WINDOW_S, matches, whole_ttl_s
from gpuyard.contracts.subjects import Stream

# What the server counts for each message besides subject, headers and payload, roughly.
_OVERHEAD_BYTES = 30


class Log:
    """Messages by sequence, within the stream's limits."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.last_seq = 0
        self._messages: dict[int, Message] = {}
        self._by_subject: dict[str, deque[int]] = {}
        self._expiry: list[tuple[float, int]] = []
        self._ids: dict[str, tuple[int, float]] = {}
        self._size_bytes = 0

    def __contains__(self, seq: int) -> bool:
        return seq in self._messages

    def __getitem__(self, seq: int) -> Message:
        return self._messages[seq]

    def append(
        self,
        subject: str,
        payload: bytes,
        headers: Mapping[str, str],
        *,
        now_s: float,
        msg_id: str = "",
        expect: Expect | None = None,
        ttl_s: float | None = None,
    ) -> Appended:
        """Add a message, or recognise it as one seen before.

        Raises:
            Conflict: the expectation does not hold.
            Unavailable: the stream is full.

        """
        self.expire(now_s)
        if msg_id in self._ids:
            return Appended(self._ids[msg_id][0], duplicate=True)
        self._check(expect)
        message = Message(subject, payload, headers, seq=self.last_seq + 1, at_s=now_s)
        self._make_room(message)
        self._store(message)
        if msg_id:
            self._ids[msg_id] = (message.seq, now_s)
        self._set_expiry(message, ttl_s)
        return Appended(message.seq)

    def newest(self, subject: str) -> Message | None:
        seqs = self._by_subject.get(subject)
        return self._messages[seqs[-1]] if seqs else None

    def newest_of_each(self, patterns: Iterable[str]) -> list[int]:
        """Sequences of the newest message of every subject that matches, in order."""
        patterns = tuple(patterns)
        return sorted(
            seqs[-1]
            for subject, seqs in self._by_subject.items()
            if seqs and any(matches(pattern, subject) for pattern in patterns)
        )

    def next_after(self, seq: int, patterns: Iterable[str]) -> Message | None:
        """The first message behind `seq` that matches."""
        patterns = tuple(patterns)
        for candidate in range(seq + 1, self.last_seq + 1):
            message = self._messages.get(candidate)
            if message and any(matches(pattern, message.subject) for pattern in patterns):
                return message
        return None

    def between(self, first_seq: int, patterns: Iterable[str]) -> Iterator[int]:
        """Sequences from `first_seq` to the end that match."""
        seq = first_seq - 1
        while message := self.next_after(seq, patterns):
            seq = message.seq
            yield seq

    def remove(self, seq: int) -> None:
        message = self._messages.pop(seq, None)
        if message is None:
            return
        self._size_bytes -= _size_bytes(message)
        seqs = self._by_subject[message.subject]
        seqs.remove(seq)
        if not seqs:
            del self._by_subject[message.subject]

    def trim(self, pattern: str, before_seq: int | None) -> None:
        for message in list(self._messages.values()):
            old = before_seq is None or message.seq < before_seq
            if old and (not pattern or matches(pattern, message.subject)):
                self.remove(message.seq)

    def expire(self, now_s: float) -> None:
        """Drop what is over its time to live, and ids that are out of the window."""
        while self._expiry and self._expiry[0][0] <= now_s:
            self.remove(heapq.heappop(self._expiry)[1])
        while self._ids:
            oldest = next(iter(self._ids))
            if self._ids[oldest][1] + DUPLICATE_WINDOW_S > now_s:
                break
            del self._ids[oldest]

    def _check(self, expect: Expect | None) -> None:
        if expect is None:
            return
        newest = self.newest(expect.subject)
        found = newest.seq if newest else 0
        if found != expect.seq:
            raise conflict(expect)

    def _make_room(self, message: Message) -> None:
        needed_bytes = _size_bytes(message)
        if self.stream.when_full == "refuse":
            if self._size_bytes + needed_bytes > self.stream.max_bytes:
                raise full(self.stream.name)
            return
        while self._messages and self._size_bytes + needed_bytes > self.stream.max_bytes:
            self.remove(next(iter(self._messages)))

    def _store(self, message: Message) -> None:
        self.last_seq = message.seq
        self._messages[message.seq] = message
        self._size_bytes += _size_bytes(message)
        seqs = self._by_subject.setdefault(message.subject, deque())
        seqs.append(message.seq)
        if self.stream.per_subject is not None and len(seqs) > self.stream.per_subject:
            self.remove(seqs[0])

    def _set_expiry(self, message: Message, ttl_s: float | None) -> None:
        ages_s = [age_s for age_s in (self.stream.max_age_s, ttl_s and whole_ttl_s(ttl_s)) if age_s]
        if ages_s:
            heapq.heappush(self._expiry, (message.at_s + min(ages_s), message.seq))


def _size_bytes(message: Message) -> int:
    headers_bytes = sum(len(key) + len(value) + 4 for key, value in message.headers.items())
    return len(message.subject) + len(message.payload) + headers_bytes + _OVERHEAD_BYTES


@dataclass
class _Pending:
    due_s: float
    tries: int


@dataclass
class Queue:
    """A durable queue over a stream: who has what, and when it comes again."""

    log: Log
    pattern: str
    ack_wait_s: float
    max_pending: int
    _position: int = 0
    _pending: dict[int, _Pending] = field(default_factory=dict)

    def take(self, now_s: float) -> tuple[Message, int] | None:
        """The next message due and how often it was delivered, this time included."""
        seq = self._next(now_s)
        if seq is None:
            return None
        tries = self._pending[seq].tries + 1 if seq in self._pending else 1
        self._pending[seq] = _Pending(now_s + self.ack_wait_s, tries)
        return self.log[seq], tries

    def next_due_s(self) -> float | None:
        """When a message comes again at the earliest."""
        return min((pending.due_s for pending in self._pending.values()), default=None)

    def ack(self, seq: int) -> None:
        self._pending.pop(seq, None)
        if self.log.stream.kind == "work":
            self.log.remove(seq)

    def postpone(self, seq: int, until_s: float) -> None:
        """Let it come again at `until_s` and not earlier, unless it is acknowledged."""
        if seq in self._pending:
            self._pending[seq].due_s = until_s

    def _next(self, now_s: float) -> int | None:
        for seq in [seq for seq in self._pending if seq not in self.log]:
            del self._pending[seq]
        due = [seq for seq, pending in self._pending.items() if pending.due_s <= now_s]
        if due:
            return min(due)
        if len(self._pending) >= self.max_pending:
            return None
        message = self.log.next_after(self._position, (self.pattern,))
        if message is None:
            return None
        self._position = message.seq
        return message.seq
