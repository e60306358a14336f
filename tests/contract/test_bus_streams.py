"""What every bus promises about reading, queues and objects."""

import asyncio

import pytest

from gpuyard.bus.port import Bus, From
from gpuyard.contracts.errors import Conflict, InvalidSpec, Unavailable
from tests.contract.conftest import MakeStream
from tests.contract.taking import WITHIN_S, end, fill, nothing_from, one, payloads, root, take

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


async def test_a_full_bucket_drops_its_oldest_objects(bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.bus.nats_objects.MAX_BUCKET_BYTES", 1_000_000)
    monkeypatch.setattr(bus, "bucket_bytes", 1_000_000, raising=False)
    for name in ("a", "b", "c"):
        await bus.put_object("small", name, name.encode() * 300_000)
    assert await bus.has_object("small", "a")  # from now on it counts as newer than `b` and `c`
    await bus.put_object("small", "d", b"d" * 500_000)
    assert await bus.get_object("small", "b") is None
    assert not await bus.has_object("small", "c")
    assert await bus.get_object("small", "a") == b"a" * 300_000
    assert await bus.get_object("small", "d") == b"d" * 500_000

    with pytest.raises(Unavailable, match="full"):
        await bus.put_object("small", "e", b"e" * 1_100_000)
    assert await bus.has_object("small", "a"), "nothing is dropped for what can never fit"
    await bus.put_object("small", "d", b"D" * 600_000)
    assert await bus.get_object("small", "d") == b"D" * 600_000


async def test_objects_are_known_to_be_there(bus: Bus) -> None:
    assert not await bus.has_object("uploads", "shipped.tar")
    await bus.put_object("uploads", "shipped.tar", b"")
    assert await bus.has_object("uploads", "shipped.tar")
    assert not await bus.has_object("uploads", "never-shipped.tar")
