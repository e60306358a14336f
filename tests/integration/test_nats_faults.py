"""The bus while its server is killed, frozen, emptied, or shuts the door on us."""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from gpuyard.bus.nats_bus import NatsBus, connect
from gpuyard.bus.nats_client import Link
from gpuyard.bus.port import Delivery, From, Message
from gpuyard.contracts.errors import Conflict, Unavailable
from gpuyard.contracts.subjects import MIB, Stream
from tests.natsd import NatsServer

T = TypeVar("T")
WITHIN_S = 60.0
LOG = Stream("LOG", ("log.>",), "Lines.", max_bytes=256 * MIB)
WORK = Stream("WORK", ("work.>",), "Orders.", kind="work", max_bytes=64 * MIB)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever happens to the server, nobody is shown a traceback."""
    yield
    assert not [record.getMessage() for record in caplog.records if record.exc_info]
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "natsd") as running:
        yield running


@pytest.fixture
async def bus(server: NatsServer) -> AsyncIterator[NatsBus]:
    async with connect(server.url, "fault-test") as connected:
        await connected.ensure([LOG, WORK])
        yield connected


async def soon(work: Awaitable[T]) -> T:
    async with asyncio.timeout(WITHIN_S):
        return await work


async def restart(server: NatsServer) -> None:
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


def link_of(bus: NatsBus) -> Link:
    link = bus._connection._link
    assert link is not None
    return link


async def write_lines(bus: NatsBus, count: int) -> None:
    """Write numbered lines one after the other, however often the bus is away."""
    for number in range(count):
        written = False
        while not written:
            try:
                await bus.append("log.a", str(number).encode(), msg_id=f"line-{number}")
                written = True
            except Unavailable:
                continue


async def read_lines(reader: AsyncIterator[Message], count: int) -> list[int]:
    return [int((await anext(reader)).payload) for _ in range(count)]


async def test_a_reader_sees_every_line_once_while_the_server_is_killed_again_and_again(
    bus: NatsBus, server: NatsServer
) -> None:
    async with bus.read(LOG) as reader:
        writing = asyncio.ensure_future(write_lines(bus, 600))
        lines: list[int] = []
        for count in (100, 200, 300):
            lines += await soon(read_lines(reader, count - len(lines)))
            await restart(server)
        lines += await soon(read_lines(reader, 600 - len(lines)))
        await soon(writing)
    assert lines == list(range(600))


async def test_a_snapshot_stays_current_over_a_restart(bus: NatsBus, server: NatsServer) -> None:
    await bus.append("log.a", b"0")
    async with bus.read(LOG, start=From.LAST_PER_SUBJECT) as reader:
        assert await soon(read_lines(reader, 1)) == [0]
        await restart(server)
        for number in (1, 2):
            await bus.append("log.a", str(number).encode())
        assert await soon(read_lines(reader, 2)) == [1, 2]
    async with bus.read(LOG, "log.new", start=From.LAST_PER_SUBJECT) as reader:
        await restart(server)
        for number in (1, 2):
            await bus.append("log.new", str(number).encode())
        assert await soon(read_lines(reader, 2)) == [1, 2]


async def test_work_goes_on_after_a_kill(bus: NatsBus, server: NatsServer) -> None:
    for number in range(100):
        await bus.append("work.a", str(number).encode())
    done: set[int] = set()
    async with bus.work(WORK, "crew", ack_wait_s=1.0) as work:
        while len(done) < 100:
            delivery: Delivery = await soon(anext(work))
            done.add(int(delivery.message.payload))
            await delivery.ack()
            if len(done) in (30, 60):
                await restart(server)


async def test_subscriptions_and_groups_go_on_after_a_kill(bus: NatsBus, server: NatsServer) -> None:
    async with bus.subscribe("room.>") as alone, bus.subscribe("room.>", group="crew") as member:
        await restart(server)
        await soon(bus.publish("room.a", b"again"))
        assert (await soon(anext(alone))).payload == b"again"
        assert (await soon(anext(member))).payload == b"again"


async def test_an_append_in_flight_is_completed_after_the_restart(bus: NatsBus, server: NatsServer) -> None:
    server.pause()
    appending = asyncio.ensure_future(bus.append("log.a", b"0", msg_id="once", timeout_s=WITHIN_S))
    await asyncio.wait([appending], timeout=0.2)
    await restart(server)
    appended = await soon(appending)
    again = await bus.append("log.a", b"0", msg_id="once")
    assert (again.seq, again.duplicate) == (appended.seq, True)


async def test_an_append_without_id_is_not_repeated(bus: NatsBus, server: NatsServer) -> None:
    server.pause()
    appending = asyncio.ensure_future(bus.append("log.a", b"0", timeout_s=WITHIN_S))
    await asyncio.wait([appending], timeout=0.2)
    await restart(server)
    with pytest.raises(Unavailable):
        await soon(appending)


async def test_nothing_hangs_while_the_server_is_frozen(bus: NatsBus, server: NatsServer) -> None:
    await bus.append("log.a", b"0")
    async with bus.subscribe("room.a"):
        with server.paused():
            calls = (
                bus.append("log.a", b"1", timeout_s=0.3),
                bus.append("log.a", b"1", msg_id="m", timeout_s=0.3),
                bus.request("room.a", b"", timeout_s=0.3),
                bus.last(LOG, "log.a"),
                bus.trim(LOG),
                bus.ensure([LOG]),
                flood(bus),
            )
            outcomes = await soon(asyncio.gather(*calls, return_exceptions=True))
            assert [type(outcome) for outcome in outcomes] == [Unavailable] * len(calls)
    assert await soon(bus.append("log.b", b"after", timeout_s=WITHIN_S))


async def test_a_cancelled_call_ends_at_once_while_the_server_is_frozen(
    bus: NatsBus, server: NatsServer
) -> None:
    with server.paused():
        calls = [
            asyncio.ensure_future(bus.append("log.a", b"1", msg_id="m", timeout_s=600)),
            asyncio.ensure_future(bus.request("room.a", b"", timeout_s=600)),
            asyncio.ensure_future(flood(bus)),
        ]
        await asyncio.wait(calls, timeout=0.5)
        for call in calls:
            call.cancel()
        await soon(asyncio.wait(calls))
        assert all(call.cancelled() for call in calls)


async def flood(bus: NatsBus) -> None:
    """Publish more than the sockets and buffers between us and the server can hold."""
    for _ in range(64):
        await bus.publish("room.flood", b"x" * 1_000_000)


async def test_a_frozen_server_is_noticed_by_its_silence(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard.bus.nats_client._PING_INTERVAL_S", 0.2)
    async with connect(server.url, "watchful") as bus:
        link = link_of(bus)
        with server.paused():
            await soon(link.lost.wait())
        await bus.publish("room.a", b"")
        assert link_of(bus) is not link


async def test_the_servers_pings_are_answered(tmp_path: Path) -> None:
    class Impatient(NatsServer):
        def conf(self) -> str:
            return super().conf().replace('ping_interval: "10s"', 'ping_interval: "300ms"')

    with Impatient(tmp_path) as server:
        async with connect(server.url, "idle") as bus:
            lost = asyncio.ensure_future(link_of(bus).lost.wait())
            await asyncio.wait([lost], timeout=3.0)
            assert not lost.done()
            lost.cancel()


async def test_a_late_pong_does_no_harm(bus: NatsBus, server: NatsServer) -> None:
    link = link_of(bus)
    with server.paused():
        await link.roundtrip(0.1)
    async with bus.subscribe("room.a") as heard:
        await bus.publish("room.a", b"here")
        assert (await soon(anext(heard))).payload == b"here"
    await link.roundtrip(WITHIN_S)
    assert link_of(bus) is link


async def test_when_the_server_shuts_the_door_everything_goes_on(bus: NatsBus) -> None:
    """A message over the server's limit, sent past our check, closes the connection for good."""
    async with bus.read(LOG) as reader, bus.work(WORK, "crew") as work, bus.subscribe("room.a") as heard:
        for round_ in range(3):
            before = link_of(bus)
            before.send(b"PUB room.a 2000000\r\n" + b"x" * 2_000_000 + b"\r\n")
            await soon(before.lost.wait())
            await soon(bus.append("log.a", str(round_).encode()))
            await soon(bus.append("work.a", str(round_).encode()))
            await soon(bus.publish("room.a", str(round_).encode()))
            delivery = await soon(anext(work))
            assert await soon(read_lines(reader, 1)) == [round_]
            assert int(delivery.message.payload) == round_
            assert int((await soon(anext(heard))).payload) == round_
            await delivery.ack()


async def test_a_reader_whose_consumer_is_deleted_goes_on(bus: NatsBus) -> None:
    async with bus.read(LOG) as reader:
        await bus.append("log.a", b"0")
        assert await soon(read_lines(reader, 1)) == [0]
        for number in (1, 2, 3):
            names = (await bus._jetstream.api("CONSUMER.NAMES.LOG"))["consumers"]
            for consumer in names:
                await bus._jetstream.api(f"CONSUMER.DELETE.LOG.{consumer}")
            await bus.append("log.a", str(number).encode())
            assert await soon(read_lines(reader, 1)) == [number]


async def test_a_worker_whose_queue_is_deleted_goes_on(bus: NatsBus) -> None:
    async with bus.work(WORK, "crew") as work:
        await bus._jetstream.api("CONSUMER.DELETE.WORK.crew")
        await bus.append("work.a", b"0")
        delivery = await soon(anext(work))
        await delivery.ack()


async def test_readers_leave_no_consumer_behind(bus: NatsBus) -> None:
    async with bus.read(LOG), bus.read(LOG, "log.a", start=From.NEW):
        assert await consumers(bus) == 2
    async with asyncio.timeout(WITHIN_S):
        while await consumers(bus):
            await asyncio.sleep(0)


async def consumers(bus: NatsBus) -> int:
    info = await bus._jetstream.api("STREAM.INFO.LOG")
    return int(info["state"]["consumer_count"])


async def test_a_reader_learns_that_the_server_lost_data(bus: NatsBus, server: NatsServer) -> None:
    await write_lines(bus, 10)
    async with bus.read(LOG) as reader, bus.read(LOG, start=From.NEW) as waiting:
        await soon(read_lines(reader, 10))
        server.kill()
        shutil.rmtree(server.folder / "store")
        server.start()
        async with connect(server.url, "other") as other:
            await other.ensure([LOG])
            await other.append("log.a", b"0")
        for one in (reader, waiting):
            with pytest.raises(Conflict):
                await soon(anext(one))


async def test_a_slow_reader_has_no_gap(tmp_path: Path) -> None:
    count = 20_000
    with NatsServer(tmp_path, durable=False) as server:
        async with connect(server.url, "slow") as bus:
            await bus.ensure([LOG])
            async with bus.read(LOG) as reader:
                for first in range(0, count, 500):
                    numbers = range(first, first + 500)
                    await asyncio.gather(*(bus.append("log.a", str(n).encode()) for n in numbers))
                    assert len(reader._kept) <= reader.window  # type: ignore[attr-defined]
                assert await soon(read_lines(reader, count)) == list(range(count))
                assert reader.backlog == 0


async def test_an_oversized_message_is_refused_and_the_connection_survives(bus: NatsBus) -> None:
    link = link_of(bus)
    with pytest.raises(Exception, match="bytes"):
        await bus.publish("room.a", b"x" * (2 * MIB))
    await bus.append("log.a", b"0")
    assert link_of(bus) is link


async def test_two_queues_over_the_same_messages_are_refused(bus: NatsBus) -> None:
    async with bus.work(WORK, "crew"), bus.work(WORK, "other") as other:
        with pytest.raises(Conflict, match="another worker"):
            await soon(anext(other))


async def test_a_stream_of_another_kind_is_not_changed(bus: NatsBus) -> None:
    with pytest.raises(Conflict, match="LOG"):
        await bus.ensure([Stream("LOG", ("log.>",), "Not a log any more.", kind="work")])
    with pytest.raises(Conflict, match="THIEF"):
        await bus.ensure([Stream("THIEF", ("log.a",), "Takes what another has.")])


async def test_streams_are_ensured_again_where_all_storage_is_reserved(tmp_path: Path) -> None:
    with NatsServer(tmp_path, max_store_bytes=LOG.max_bytes + WORK.max_bytes) as server:
        async with connect(server.url, "full") as bus:
            await bus.ensure([LOG, WORK])
            await bus.ensure([WORK, LOG])
            with pytest.raises(Conflict, match=r"MORE .* insufficient storage"):
                await bus.ensure([Stream("MORE", ("more.>",), "No room for it.", max_bytes=MIB)])


async def test_a_subject_that_is_no_text_harms_nobody(bus: NatsBus) -> None:
    link = link_of(bus)
    async with bus.subscribe("room.>") as heard:
        link.send(b"PUB room.\xff\xfe 0\r\n\r\n")
        await bus.publish("room.a", b"")
        assert "\ufffd" in (await soon(anext(heard))).subject
        assert (await soon(anext(heard))).subject == "room.a"
    assert link_of(bus) is link


async def test_a_link_lost_as_soon_as_it_is_made_is_replaced(
    bus: NatsBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Link.open
    lost: list[Link] = []

    async def open_and_lose(link: Link, servers: list[str], name: str) -> None:
        await original(link, servers, name)
        if not lost:
            lost.append(link)
            link.abort()

    monkeypatch.setattr(Link, "open", open_and_lose)
    link_of(bus).abort()
    await soon(bus.append("log.a", b"0", timeout_s=WITHIN_S))
    assert lost


async def test_nobody_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = NatsServer(tmp_path)
    with pytest.raises(Unavailable, match=str(server.port)) as caught:
        async with connect(server.url, "early", connect_timeout_s=0.5):
            pass
    assert "nats-server" in caught.value.hint
    assert server.token not in caught.value.message
    assert not caplog.records, "the caller has the error; it is not said twice"


async def test_a_frozen_server_is_nobody(server: NatsServer) -> None:
    with server.paused(), pytest.raises(Unavailable):
        async with connect(server.url, "frozen", connect_timeout_s=0.5):
            pass


async def test_a_wrong_token_is_named(server: NatsServer) -> None:
    url = server.url.replace(server.token, "wrong")
    with pytest.raises(Unavailable, match="Authorization"):
        async with connect(url, "stranger", connect_timeout_s=2.0):
            pass


async def test_a_service_waits_for_its_server(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)

    async def serve() -> None:
        async with connect(server.url, "patient", forever=True) as bus:
            await bus.publish("room.a", b"")

    serving = asyncio.ensure_future(serve())
    await asyncio.wait([serving], timeout=0.5)
    assert not serving.done()
    with server:
        await soon(serving)


async def test_connected_tells_whether_the_server_answers(bus: NatsBus, server: NatsServer) -> None:
    states = [bus.connected]
    server.kill()
    await soon(link_of(bus).lost.wait())
    states.append(bus.connected)
    server.start()
    await soon(bus.append("log.a", b"", timeout_s=WITHIN_S))
    states.append(bus.connected)
    assert states == [True, False, True]
