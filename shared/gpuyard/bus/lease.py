"""Leadership with a lease that expires and a fence that does not.

Two subjects of one stream. *Leader* is a sign of life with a time to live, renewed by compare-and-set. *Term*
is written once per reign, while the lease is held: its sequence is the term, and every write of the reign is
conditional on it. The lease decides quickly who leads; only the fence decides whose writes count. So nothing
here has to be exactly right about time, and a leader that was asleep can do no harm.
"""

import asyncio
from contextlib import suppress
from typing import Protocol
from uuid import uuid4

from gpuyard.bus.port import Expect, Message, Streams
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Conflict, InvalidSpec, Unavailable
from gpuyard.contracts.lease import Leader, Term
from gpuyard.contracts.subjects import Stream

_RENEWALS_PER_TTL = 3
_LOOKS_PER_TTL = 6
_MARGIN_S = 0.5


class Clock(Protocol):
    """What a lease needs of time."""

    def now(self) -> float: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class Lease:
    """Competes for leadership.

    Args:
        bus: Where the stream is.
        stream: Holds both subjects and everything that the fence protects.
        leader_subject: Sign of life of whoever leads.
        term_subject: Start of each reign.
        owner: Names this process to people.
        clock: Time.
        ttl_s: How long a silent leader keeps the others waiting; whole seconds, at least 2.
        alone: No other process has this owner's name: a lease that bears it was this one's before a crash.

    """

    def __init__(
        self,
        bus: Streams,
        stream: Stream,
        leader_subject: str,
        term_subject: str,
        *,
        owner: str,
        clock: Clock,
        ttl_s: float = 3.0,
        alone: bool = False,
    ) -> None:
        self.bus = bus
        self.stream = stream
        self.leader_subject = leader_subject
        self.term_subject = term_subject
        self.owner = owner
        self.clock = clock
        self.ttl_s = ttl_s
        self.alone = alone
        self._seen_seq = 0
        self._seen_since_s = 0.0

    async def acquire(self) -> "Reign":
        """Wait until nobody else leads, then lead."""
        nonce = uuid4().hex
        while True:
            try:
                reign = await self._try(nonce)
            except (Conflict, Unavailable):
                reign = None
            if reign is not None:
                return reign
            await self.clock.sleep(self.ttl_s / _LOOKS_PER_TTL)

    async def sign(self, nonce: str, term: int, expected_seq: int, *, resigns: bool = False) -> int:
        """Write the sign of life over the one that has this sequence; returns the new one.

        A resignation names no owner. It outlives the signs before it, which would else come to light again.

        Raises:
            Conflict: someone else wrote.
            Unavailable: no answer; it may be written or not.

        """
        leader = Leader("" if resigns else self.owner, nonce, term, self.clock.now())
        appended = await self.bus.append(
            self.leader_subject,
            encode(leader),
            msg_id=uuid4().hex,
            expect=Expect(self.leader_subject, expected_seq),
            ttl_s=self.ttl_s + 1 if resigns else self.ttl_s,
            timeout_s=self.ttl_s,
        )
        return appended.seq

    async def _try(self, nonce: str) -> "Reign | None":
        newest = await self.bus.last(self.stream, self.leader_subject)
        if newest is not None and not self._is_free(newest, nonce):
            return None
        asked_s = self.clock.monotonic()
        seq = await self.sign(nonce, 0, newest.seq if newest else 0)
        started = await self.bus.append(
            self.term_subject,
            encode(Term(self.owner, nonce, self.clock.now())),
            msg_id=uuid4().hex,
            # Only who holds the lease at this moment may begin a term.
            expect=Expect(self.leader_subject, seq),
            timeout_s=self.ttl_s,
        )
        return Reign(self, nonce, started.seq, seq, asked_s)

    def _is_free(self, newest: Message, nonce: str) -> bool:
        leader = leader_of(newest)
        if leader is None or not leader.owner or leader.nonce == nonce:
            return True
        if self.alone and leader.owner == self.owner:
            return True
        if newest.seq != self._seen_seq:
            self._seen_seq, self._seen_since_s = newest.seq, self.clock.monotonic()
        # It should have expired long ago. A server that forgets to drop it must not make it immortal.
        return self.clock.monotonic() - self._seen_since_s > 2 * self.ttl_s


class Reign:
    """Leadership from acquisition to loss. Begin every write's expectation with `fence`."""

    def __init__(self, lease: Lease, nonce: str, term: int, seq: int, asked_s: float) -> None:
        self.term = term
        self.fence = Expect(lease.term_subject, term)
        self.lost = asyncio.Event()
        """Set once this process can't be sure that it leads. It never leads again in this reign."""
        self._lease = lease
        self._nonce = nonce
        self._seq = seq
        self._until_s = self._end_s(asked_s)
        self._tasks = [asyncio.ensure_future(self._renew()), asyncio.ensure_future(self._watch())]

    @property
    def holds(self) -> bool:
        """Whether it leads at this very moment, as far as its own clock can tell."""
        return not self.lost.is_set() and self._lease.clock.monotonic() < self._until_s

    async def resign(self) -> None:
        """Let the next one lead at once."""
        held = self.holds
        self.lost.set()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if held:
            with suppress(Conflict, Unavailable):
                await self._lease.sign(self._nonce, self.term, self._seq, resigns=True)

    async def _renew(self) -> None:
        clock = self._lease.clock
        while not self.lost.is_set():
            await clock.sleep(self._lease.ttl_s / _RENEWALS_PER_TTL)
            asked_s = clock.monotonic()
            if not self.holds:
                return
            with suppress(Unavailable):
                if not await self._sign():
                    self.lost.set()
                    return
                self._until_s = self._end_s(asked_s)

    async def _sign(self) -> bool:
        """Renew; False: someone else leads."""
        lease = self._lease
        for _ in range(2):
            try:
                self._seq = await lease.sign(self._nonce, self.term, self._seq)
            except Conflict:
                newest = await lease.bus.last(lease.stream, lease.leader_subject)
                leader = leader_of(newest) if newest else None
                if newest is None or leader is None or leader.nonce != self._nonce:
                    return False
                # An earlier renewal whose acknowledgement was lost.
                self._seq = newest.seq
            else:
                return True
        return False

    async def _watch(self) -> None:
        """Step down in time, even while a renewal hangs."""
        clock = self._lease.clock
        while self.holds:
            await clock.sleep(max(0.001, self._until_s - clock.monotonic()))
        self.lost.set()

    def _end_s(self, asked_s: float) -> float:
        """Counted from before the request: the server's time to live began later."""
        return asked_s + self._lease.ttl_s - _MARGIN_S


def leader_of(message: Message) -> Leader | None:
    """Read a sign of life; None if it is none, which holds nobody up."""
    try:
        return decode(message.payload, Leader)
    except InvalidSpec:
        return None
