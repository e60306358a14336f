import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

import pytest

from gpuyard.bus.lease import Lease, Reign
from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.port import Appended, Expect
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import Conflict, Unavailable
from gpuyard.contracts.lease import Leader
from gpuyard.contracts.subjects import LEADER, STATE_STREAM, TERM
from gpuyard.runtime.clock import FakeClock


class Yard:
    """A bus, a clock, and candidates for leadership."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.bus = FaultyBus(self.clock)

    def lease(self, owner: str, clock: FakeClock | None = None) -> Lease:
        return Lease(
            self.bus, STATE_STREAM, LEADER(), TERM(), owner=owner, clock=clock or self.clock, ttl_s=3.0
        )

    async def leads(self, owner: str) -> Reign:
        acquiring = asyncio.ensure_future(self.lease(owner).acquire())
        await self.passes(0.0)
        assert acquiring.done(), f"{owner} does not lead"
        return await acquiring

    async def passes(self, seconds: float, *others: FakeClock) -> None:
        """Let time pass in small steps, with room for everybody to act."""
        for _ in range(max(1, round(seconds / 0.1))):
            for clock in (self.clock, *others):
                clock.advance(0.1 if seconds else 0.0)
            for _ in range(30):
                await asyncio.sleep(0)


class FaultyBus(MemoryBus):
    """Can be away, and can swallow acknowledgements of what it wrote."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(now=clock.now, sleep=clock.sleep)
        self.is_away = False
        self.swallows = False
        self.before_term: Callable[[], Awaitable[None]] | None = None

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
        if self.is_away:
            raise Unavailable("away")
        if subject == TERM() and self.before_term:
            overtake, self.before_term = self.before_term, None
            await overtake()
        appended = await super().append(
            subject, payload, headers=headers, msg_id=msg_id, expect=expect, ttl_s=ttl_s
        )
        if self.swallows:
            raise Unavailable("no acknowledgement")
        return appended

    @contextmanager
    def away(self) -> Iterator[None]:
        self.is_away = True
        yield
        self.is_away = False


@pytest.fixture
async def yard() -> Yard:
    yard = Yard()
    await yard.bus.ensure([STATE_STREAM])
    return yard


async def test_the_term_is_the_sequence_of_its_message_and_the_fence(yard: Yard) -> None:
    reign = await yard.leads("ann")
    started = await yard.bus.last(STATE_STREAM, TERM())
    assert started is not None
    assert reign.term == started.seq
    assert reign.fence == Expect(TERM(), started.seq)
    await reign.resign()


async def test_a_leader_that_renews_leads_on(yard: Yard) -> None:
    reign = await yard.leads("ann")
    waiting = asyncio.ensure_future(yard.lease("bob").acquire())
    await yard.passes(60.0)
    assert reign.holds
    assert not waiting.done()
    await reign.resign()
    await yard.passes(0.6)
    assert (await waiting).holds
    await (await waiting).resign()


async def test_a_resignation_outlives_the_signs_of_life_before_it(yard: Yard) -> None:
    reign = await yard.leads("ann")
    await reign.resign()
    await yard.passes(2.0)
    successor = await yard.leads("bob")
    assert successor.term > reign.term
    await successor.resign()


async def test_a_leader_cut_off_steps_down_before_another_can_lead(yard: Yard) -> None:
    reign = await yard.leads("ann")
    await yard.passes(1.5)
    with yard.bus.away():
        await yard.passes(1.4)
        assert reign.holds
        await yard.passes(0.7)
        assert reign.lost.is_set()
    newest = await yard.bus.last(STATE_STREAM, LEADER())
    assert newest is not None, "its sign of life was still there when it stepped down"
    await yard.passes(1.0)
    successor = await yard.leads("bob")
    assert successor.term > reign.term
    await reign.resign()
    await successor.resign()


async def test_a_leader_that_slept_neither_renews_nor_resigns_the_newer_reign(yard: Yard) -> None:
    slept = FakeClock()
    acquiring = asyncio.ensure_future(yard.lease("ann", slept).acquire())
    await yard.passes(0.0, slept)
    old = await acquiring
    await yard.passes(4.0)
    new = await yard.leads("bob")
    assert old.holds, "its clock stood still: it can't know"
    with pytest.raises(Conflict):
        await yard.bus.append("gpuyard.state.job.j", b"", expect=old.fence)
    slept.advance(1.0)
    await yard.passes(0.2)
    assert old.lost.is_set()
    await old.resign()
    assert new.holds
    await yard.passes(5.0)
    assert new.holds
    await new.resign()


async def test_a_renewal_whose_acknowledgement_was_lost_is_recognised(yard: Yard) -> None:
    reign = await yard.leads("ann")
    yard.bus.swallows = True
    await yard.passes(1.1)
    yard.bus.swallows = False
    await yard.passes(5.0)
    assert reign.holds
    await reign.resign()


async def test_an_acquisition_whose_acknowledgement_was_lost_is_completed(yard: Yard) -> None:
    yard.bus.swallows = True
    acquiring = asyncio.ensure_future(yard.lease("ann").acquire())
    await yard.passes(0.1)
    yard.bus.swallows = False
    await yard.passes(1.0)
    assert acquiring.done(), "it does not wait for its own lease to expire"
    await (await acquiring).resign()


async def test_a_sign_of_life_that_never_expires_holds_nobody_up_for_ever(yard: Yard) -> None:
    immortal = encode(Leader("ghost", "nonce", 1, yard.clock.now()))
    await yard.bus.append(LEADER(), immortal)
    acquiring = asyncio.ensure_future(yard.lease("ann").acquire())
    await yard.passes(5.0)
    assert not acquiring.done()
    await yard.passes(2.0)
    assert (await acquiring).holds
    await (await acquiring).resign()


async def test_garbage_in_place_of_a_sign_of_life_holds_nobody_up(yard: Yard) -> None:
    await yard.bus.append(LEADER(), b"\xff")
    reign = await yard.leads("ann")
    await reign.resign()


async def test_who_loses_the_lease_before_its_term_begins_does_not_reign(yard: Yard) -> None:
    async def overtake() -> None:
        ours = await yard.bus.last(STATE_STREAM, LEADER())
        assert ours is not None
        await yard.bus.append(LEADER(), encode(Leader("bob", "other", 0, 0.0)), ttl_s=3.0)

    yard.bus.before_term = overtake
    acquiring = asyncio.ensure_future(yard.lease("ann").acquire())
    await yard.passes(2.0)
    assert not acquiring.done()
    assert await yard.bus.last(STATE_STREAM, TERM()) is None
    await yard.passes(2.0)
    await (await acquiring).resign()
