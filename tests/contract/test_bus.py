"""What every bus promises about sending and writing. Real time: the server has no other."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from gpuyard.bus.port import Bus, Expect, Message
from gpuyard.contracts.errors import Conflict, InvalidSpec, Unavailable
from gpuyard.contracts.subjects import Stream
from tests.contract.conftest import MakeStream
from tests.contract.taking import WITHIN_S, end, fill, one, payloads, root, take

# Core subjects


async def test_a_subscriber_hears_what_is_published_from_then_on(bus: Bus) -> None:
    async with bus.subscribe("room.*") as heard:
        await bus.publish("room.a", b"one", headers={"traceparent": "00-ä"})
        message = await one(heard)
    assert (message.subject, message.payload, message.seq) == ("room.a", b"one", 0)
    assert message.headers["traceparent"] == "00-ä"


async def test_in_a_group_each_message_goes_to_one_member(bus: Bus) -> None:
    async with (
        bus.subscribe("job.>", group="crew") as first,
        bus.subscribe("job.>", group="crew") as second,
        bus.subscribe("job.>") as witness,
    ):
        for number in range(40):
            await bus.publish("job.x", str(number).encode())
        assert len(await take(witness, 40)) == 40
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def listen(member: AsyncIterator[Message]) -> None:
            async for message in member:
                heard.put_nowait(message.payload)

        listeners = [asyncio.ensure_future(listen(member)) for member in (first, second)]
        async with asyncio.timeout(WITHIN_S):
            numbers = [int(await heard.get()) for _ in range(40)]
        await end(listeners)
    assert sorted(numbers) == list(range(40))
    assert heard.empty()


async def test_a_request_gets_one_answer(bus: Bus) -> None:
    async def serve() -> None:
        async with bus.subscribe("ask.time") as questions:
            ready.set()
            question = await anext(questions)
            await bus.publish(question.reply, question.payload.upper())

    ready = asyncio.Event()
    server = asyncio.ensure_future(serve())
    await ready.wait()
    answer = await bus.request("ask.time", b"noon", timeout_s=WITHIN_S)
    assert answer.payload == b"NOON"
    await server


async def test_a_request_that_nobody_hears_fails_at_once(bus: Bus) -> None:
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(Unavailable, match="nobody"):
            await bus.request("ask.nobody", b"", timeout_s=600)


async def test_a_request_that_nobody_answers_fails_in_time(bus: Bus) -> None:
    async with bus.subscribe("ask.silent"):
        with pytest.raises(Unavailable, match="no answer"):
            await bus.request("ask.silent", b"", timeout_s=0.05)


async def test_inboxes_are_ones_own(bus: Bus) -> None:
    inbox = bus.new_inbox()
    assert inbox != bus.new_inbox()
    assert inbox.startswith("_INBOX")
    async with bus.subscribe(inbox) as answers:
        await bus.publish(inbox, b"here")
        assert (await one(answers)).payload == b"here"


# What can't be sent


@pytest.mark.parametrize("subject", ["", "a b", "a..b", "a.*", "a.>", "a\r\nPING", "x" * 10_000, "a.\0"])
async def test_an_impossible_subject_is_refused_and_harms_nobody(bus: Bus, subject: str) -> None:
    with pytest.raises(InvalidSpec):
        await bus.publish(subject, b"")
    with pytest.raises(InvalidSpec):
        await bus.append(subject, b"")
    async with bus.subscribe("still.here") as heard:
        await bus.publish("still.here", b"")
        await one(heard)


async def test_a_message_over_a_mebibyte_is_refused_with_its_headers_counted(
    bus: Bus, make_stream: MakeStream
) -> None:
    stream = make_stream(max_bytes=8 << 20)
    await bus.ensure([stream])
    subject = f"{root(stream)}.big"
    for payload, headers in ((b"x" * (2 << 20), None), (b"x" * (1 << 20), {"a": "b"})):
        with pytest.raises(InvalidSpec, match="bytes"):
            await bus.append(subject, payload, headers=headers)
        with pytest.raises(InvalidSpec, match="bytes"):
            await bus.publish("room.big", payload, headers=headers)
    assert (await bus.append(subject, b"x" * (1 << 20))).seq == 1


async def test_a_header_with_a_line_break_is_refused(bus: Bus) -> None:
    with pytest.raises(InvalidSpec, match="header"):
        await bus.publish("room.a", b"", headers={"a": "b\r\nNats-Rollup: all"})


# Appending


async def test_sequences_count_up_and_last_finds_the_newest(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    subject = f"{root(stream)}.a"
    assert await bus.last(stream, subject) is None
    assert await fill(bus, subject, 3) == [1, 2, 3]
    newest = await bus.last(stream, subject)
    assert newest is not None
    assert (newest.subject, newest.payload, newest.seq) == (subject, b"2", 3)
    assert newest.at_s > 1_600_000_000
    assert await bus.last(stream, f"{root(stream)}.b") is None


async def test_headers_are_kept(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    await bus.append(f"{root(stream)}.a", b"", headers={"traceparent": "00-1"})
    newest = await bus.last(stream, f"{root(stream)}.a")
    assert newest is not None
    assert newest.headers["traceparent"] == "00-1"
    async with bus.read(stream) as reader:
        assert (await one(reader)).headers["traceparent"] == "00-1"


async def test_a_subject_without_stream_is_unavailable(bus: Bus) -> None:
    with pytest.raises(Unavailable, match="no stream"):
        await bus.append("nowhere.at.all", b"")


async def test_the_same_message_id_writes_once(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    first = await bus.append(f"{root(stream)}.a", b"one", msg_id="m1")
    again = await bus.append(f"{root(stream)}.a", b"one", msg_id="m1")
    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.seq == first.seq
    assert (await bus.append(f"{root(stream)}.a", b"two", msg_id="m2")).seq == 2


async def test_compare_and_set(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    subject = f"{root(stream)}.a"
    first = await bus.append(subject, b"one", expect=Expect(subject, 0))
    with pytest.raises(Conflict):
        await bus.append(subject, b"two", expect=Expect(subject, 0))
    await bus.append(f"{root(stream)}.b", b"other")
    second = await bus.append(subject, b"two", expect=Expect(subject, first.seq))
    with pytest.raises(Conflict):
        await bus.append(subject, b"three", expect=Expect(subject, first.seq))
    newest = await bus.last(stream, subject)
    assert newest is not None
    assert (newest.payload, newest.seq) == (b"two", second.seq)


async def test_a_fence_on_another_subject(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    term, job = f"{root(stream)}.term", f"{root(stream)}.job.1"
    old = Expect(term, (await bus.append(term, b"old reign")).seq)
    await bus.append(job, b"by old", expect=old)
    await bus.append(job, b"by old again", expect=old)
    new = Expect(term, (await bus.append(term, b"new reign")).seq)
    with pytest.raises(Conflict):
        await bus.append(job, b"too late", expect=old)
    await bus.append(job, b"by new", expect=new)
    async with bus.read(stream, job) as reader:
        assert payloads(await take(reader, 3)) == [b"by old", b"by old again", b"by new"]


async def test_a_repeat_is_recognised_even_if_its_expectation_no_longer_holds(
    bus: Bus, make_stream: MakeStream
) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    subject = f"{root(stream)}.a"
    first = await bus.append(subject, b"one", msg_id="m1", expect=Expect(subject, 0))
    again = await bus.append(subject, b"one", msg_id="m1", expect=Expect(subject, 0))
    assert again.duplicate
    assert again.seq == first.seq


async def test_of_many_writers_with_the_same_expectation_one_wins(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    subject = f"{root(stream)}.a"
    outcomes = await asyncio.gather(
        *(bus.append(subject, b"", expect=Expect(subject, 0)) for _ in range(20)), return_exceptions=True
    )
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 19


async def test_what_is_over_its_time_to_live_is_gone_and_counts_as_absent(
    bus: Bus, make_stream: MakeStream
) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    subject = f"{root(stream)}.leader"
    mortal = await bus.append(subject, b"alive", ttl_s=2.5)
    with pytest.raises(Conflict):
        await bus.append(subject, b"too early", expect=Expect(subject, 0))
    async with asyncio.timeout(WITHIN_S):
        while await bus.last(stream, subject) is not None:
            await bus.publish("any.subject", b"")
            await asyncio.sleep(0)
    with pytest.raises(Conflict):
        await bus.append(subject, b"stale", expect=Expect(subject, mortal.seq))
    renewed = await bus.append(subject, b"next", expect=Expect(subject, 0))
    newest = await bus.last(stream, subject)
    assert newest is not None
    assert newest.seq == renewed.seq
    async with bus.read(stream) as reader:
        assert (await one(reader)).payload == b"next"


# Limits


async def test_a_full_stream_refuses(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(max_bytes=10_000)
    await bus.ensure([stream])
    with pytest.raises(Unavailable, match="full"):
        await fill_up(bus, f"{root(stream)}.a")
    await bus.trim(stream)
    await bus.append(f"{root(stream)}.a", b"room again")


async def test_a_full_stream_may_drop_its_oldest(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(max_bytes=10_000, when_full="drop_oldest")
    await bus.ensure([stream])
    await fill_up(bus, f"{root(stream)}.a")
    async with bus.read(stream) as reader:
        assert (await one(reader)).seq > 1


async def fill_up(bus: Bus, subject: str) -> None:
    for _ in range(20):
        await bus.append(subject, b"x" * 1000)


async def test_only_the_newest_of_a_subject_are_kept(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(per_subject=2)
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 5)
    await fill(bus, f"{root(stream)}.b", 1)
    async with bus.read(stream) as reader:
        assert [message.seq for message in await take(reader, 3)] == [4, 5, 6]


async def test_ensuring_again_changes_the_settings_and_keeps_the_messages(
    bus: Bus, make_stream: MakeStream
) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 3)
    bounded = Stream(stream.name, stream.subjects, stream.purpose, per_subject=3, max_bytes=1 << 21)
    await bus.ensure([bounded])
    await fill(bus, f"{root(stream)}.a", 2, first=3)
    async with bus.read(bounded) as reader:
        assert payloads(await take(reader, 3)) == [b"2", b"3", b"4"]


async def test_trim(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    a, b = f"{root(stream)}.a", f"{root(stream)}.b"
    await fill(bus, a, 3)
    await fill(bus, b, 3)
    await bus.trim(stream, subject=a, before_seq=3)
    async with bus.read(stream) as reader:
        assert [message.seq for message in await take(reader, 4)] == [3, 4, 5, 6]
    await bus.trim(stream, before_seq=5)
    async with bus.read(stream) as reader:
        assert [message.seq for message in await take(reader, 2)] == [5, 6]
    await bus.trim(stream, subject=b)
    assert await bus.last(stream, b) is None
    assert (await bus.append(a, b"after")).seq == 7
