"""What every bus promises. Real time: the server has no other."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

import pytest

from gpuyard.bus.port import Bus, Expect, From, Message
from gpuyard.contracts.errors import Conflict, InvalidSpec, Unavailable
from gpuyard.contracts.subjects import Stream
from tests.contract.conftest import MakeStream

T = TypeVar("T")
WITHIN_S = 20.0


async def take(source: AsyncIterator[T], count: int) -> list[T]:
    async with asyncio.timeout(WITHIN_S):
        return [await anext(source) for _ in range(count)]


async def one(source: AsyncIterator[T]) -> T:
    return (await take(source, 1))[0]


async def nothing_from(source: AsyncIterator[T], during_s: float) -> None:
    coming = asyncio.ensure_future(take(source, 1))
    done, _ = await asyncio.wait([coming], timeout=during_s)
    assert not done
    coming.cancel()
    await asyncio.wait([coming])


async def end(tasks: Sequence[asyncio.Future[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def root(stream: Stream) -> str:
    return stream.subjects[0].removesuffix(".>")


async def fill(bus: Bus, subject: str, count: int, first: int = 0) -> list[int]:
    return [(await bus.append(subject, str(first + n).encode())).seq for n in range(count)]


def payloads(messages: list[Message]) -> list[bytes]:
    return [message.payload for message in messages]


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


# Reading


async def test_a_reader_reads_what_is_there_then_what_comes(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 3)
    async with bus.read(stream) as reader:
        assert reader.backlog == 3
        assert payloads(await take(reader, 3)) == [b"0", b"1", b"2"]
        assert reader.backlog == 0
        await fill(bus, f"{root(stream)}.a", 2, first=3)
        assert [message.seq for message in await take(reader, 2)] == [4, 5]
        assert reader.backlog == 0


async def test_a_reader_of_what_is_new_begins_where_it_was_opened(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 3)
    async with bus.read(stream, start=From.NEW) as reader:
        assert reader.backlog == 0
        await fill(bus, f"{root(stream)}.a", 1, first=3)
        assert (await one(reader)).payload == b"3"


async def test_a_reader_resumes_by_sequence(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 10)
    async with bus.read(stream, start=8) as reader:
        assert [message.seq for message in await take(reader, 3)] == [8, 9, 10]
    async with bus.read(stream, start=11) as reader:
        assert reader.backlog == 0
        await fill(bus, f"{root(stream)}.a", 1, first=10)
        assert (await one(reader)).seq == 11


async def test_a_reader_begins_with_a_snapshot_and_stays_current(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(per_subject=100)
    await bus.ensure([stream])
    a, b, c = (f"{root(stream)}.{key}.x" for key in "abc")
    for subject, payload in ((a, b"a1"), (b, b"b1"), (a, b"a2"), (c, b"c1"), (b, b"b2")):
        await bus.append(subject, payload)
    async with bus.read(stream, a, f"{root(stream)}.b.*", start=From.LAST_PER_SUBJECT) as reader:
        assert reader.backlog == 2
        assert payloads(await take(reader, 2)) == [b"a2", b"b2"]
        assert reader.backlog == 0
        for subject, payload in ((a, b"a3"), (c, b"c2"), (a, b"a4")):
            await bus.append(subject, payload)
        assert payloads(await take(reader, 2)) == [b"a3", b"a4"]


async def test_a_snapshot_may_be_of_the_whole_stream(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(per_subject=100)
    await bus.ensure([stream])
    for key, payload in (("a", b"a1"), ("b", b"b1"), ("a", b"a2")):
        await bus.append(f"{root(stream)}.{key}", payload)
    async with bus.read(stream, start=From.LAST_PER_SUBJECT) as reader:
        assert payloads(await take(reader, 2)) == [b"b1", b"a2"]


async def test_what_a_leaving_worker_did_not_take_is_free_for_the_next(
    bus: Bus, make_stream: MakeStream
) -> None:
    stream = make_stream(kind="work")
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 10)
    async with bus.work(stream, "crew", ack_wait_s=600) as work:
        await (await one(work)).ack()
    async with bus.work(stream, "crew", ack_wait_s=600) as work:
        rest = await take(work, 9)
    assert sorted(int(delivery.message.payload) for delivery in rest) == list(range(1, 10))


async def test_a_reader_of_several_subjects_sees_one_order(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    for number in range(9):
        await bus.append(f"{root(stream)}.{'abc'[number % 3]}", str(number).encode())
    async with bus.read(stream, f"{root(stream)}.a", f"{root(stream)}.c") as reader:
        assert payloads(await take(reader, 6)) == [b"0", b"2", b"3", b"5", b"6", b"8"]


async def test_a_reader_ahead_of_the_stream_learns_that_data_was_lost(
    bus: Bus, make_stream: MakeStream
) -> None:
    stream = make_stream()
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 3)
    async with bus.read(stream, start=100) as reader:
        with pytest.raises(Conflict, match="lost data"):
            await one(reader)


async def test_a_queue_can_not_be_read(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(kind="work")
    await bus.ensure([stream])
    with pytest.raises(InvalidSpec, match="work"):
        async with bus.read(stream):
            pass


async def test_a_missing_stream_is_unavailable(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream()
    with pytest.raises(Unavailable, match="no stream"):
        async with bus.read(stream):
            pass
    with pytest.raises(Unavailable, match="no stream"):
        await bus.last(stream, f"{root(stream)}.a")
    with pytest.raises(Unavailable, match="no stream"):
        await bus.trim(stream)


# Queues


async def test_an_acknowledged_message_leaves_the_queue(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(kind="work")
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 3)
    async with bus.work(stream, "crew") as work:
        for delivery in await take(work, 3):
            assert delivery.tries == 1
            await delivery.ack()
    await fill(bus, f"{root(stream)}.a", 1, first=3)
    async with bus.work(stream, "crew") as work:
        delivery = await one(work)
        assert (delivery.message.payload, delivery.message.seq) == (b"3", 4)
        await delivery.ack()


async def test_a_message_comes_again_after_a_nak_and_not_before_its_delay(
    bus: Bus, make_stream: MakeStream
) -> None:
    stream = make_stream(kind="work")
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 2)
    async with bus.work(stream, "crew") as work:
        first, second = await take(work, 2)
        await first.nak(delay_s=2.0)
        await second.nak()
        again = await take(work, 2)
        assert payloads([delivery.message for delivery in again]) == [b"1", b"0"]
        assert [delivery.tries for delivery in again] == [2, 2]
        for delivery in again:
            await delivery.ack()


async def test_a_message_comes_again_after_the_ack_timeout(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(kind="work")
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 1)
    async with bus.work(stream, "crew", ack_wait_s=0.3) as work:
        first = await one(work)
        again = await one(work)
        assert first.message == again.message
        assert (first.tries, again.tries >= 2) == (1, True)
        await again.ack()


async def test_a_message_in_hand_does_not_come_again_while_it_is_worked_on(
    bus: Bus, make_stream: MakeStream
) -> None:
    stream = make_stream(kind="work")
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 1)
    async with bus.work(stream, "crew", ack_wait_s=3.0) as work:
        first = await one(work)
        for _ in range(8):
            await nothing_from(work, during_s=0.5)
            await first.working()
        await first.ack()


async def test_two_workers_share_a_queue(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(kind="work")
    await bus.ensure([stream])
    done: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

    async def toil(name: str) -> None:
        async with bus.work(stream, "crew") as work:
            async for delivery in work:
                done.put_nowait((name, int(delivery.message.payload)))
                await delivery.ack()

    workers = [asyncio.ensure_future(toil(name)) for name in ("ann", "bob")]
    results: list[tuple[str, int]] = []
    async with asyncio.timeout(WITHIN_S):
        while len({name for name, _ in results}) < 2:
            await fill(bus, f"{root(stream)}.a", 100, first=len(results))
            results += [await done.get() for _ in range(100)]
    await end(workers)
    assert sorted(number for _, number in results) == list(range(len(results)))


async def test_workers_of_different_subjects_get_their_own(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(kind="work")
    await bus.ensure([stream])
    for node in ("n1", "n2", "n1"):
        await bus.append(f"{root(stream)}.{node}", node.encode())
    for node, count in (("n1", 2), ("n2", 1)):
        async with bus.work(stream, node, subject=f"{root(stream)}.{node}") as work:
            for delivery in await take(work, count):
                assert delivery.message.payload == node.encode()
                await delivery.ack()


async def test_no_more_is_handed_out_than_may_be_pending(bus: Bus, make_stream: MakeStream) -> None:
    stream = make_stream(kind="work")
    await bus.ensure([stream])
    await fill(bus, f"{root(stream)}.a", 3)
    async with bus.work(stream, "crew", max_pending=1) as work:
        for number in range(3):
            delivery = await one(work)
            assert delivery.message.payload == str(number).encode()
            await nothing_from(work, during_s=0.1)
            await delivery.ack()


# Objects


async def test_objects(bus: Bus) -> None:
    assert await bus.get_object("uploads", "dir.tar") is None
    await bus.put_object("uploads", "dir.tar", b"first")
    await bus.put_object("uploads", "dir/../ü x", b"")
    await bus.put_object("uploads", "dir.tar", b"second" * 300_000)
    assert await bus.get_object("uploads", "dir.tar") == b"second" * 300_000
    assert await bus.get_object("uploads", "dir/../ü x") == b""
    assert await bus.get_object("uploads", "other") is None
    assert await bus.get_object("no-such-bucket", "dir.tar") is None


async def test_objects_are_known_to_be_there(bus: Bus) -> None:
    assert not await bus.has_object("uploads", "shipped.tar")
    await bus.put_object("uploads", "shipped.tar", b"")
    assert await bus.has_object("uploads", "shipped.tar")
    assert not await bus.has_object("uploads", "never-shipped.tar")
