"""Objects are in the layout that other NATS clients know."""

from pathlib import Path

import nats
import pytest

from gpuyard.bus.nats_bus import connect
from gpuyard.contracts.errors import Unavailable
from tests.natsd import NatsServer


async def test_other_clients_read_our_objects_and_we_read_theirs(tmp_path: Path) -> None:
    data = bytes(range(256)) * 2_000
    with NatsServer(tmp_path) as server:
        client = await nats.connect(server.url)
        async with connect(server.url, "objects") as bus:
            await bus.put_object("uploads", "ours.tar", data)
            store = await client.jetstream().object_store("uploads")
            assert (await store.get("ours.tar")).data == data
            await store.put("theirs.tar", data)
            assert await bus.get_object("uploads", "theirs.tar") == data
            await store.delete("ours.tar")
            assert await bus.get_object("uploads", "ours.tar") is None
        await client.close()


async def test_replacing_leaves_no_old_chunks(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with connect(server.url, "objects") as bus:
            for filler in (b"a", b"b", b"c"):
                await bus.put_object("uploads", "dir.tar", filler * 500_000)
            state = (await bus._jetstream.api("STREAM.INFO.OBJ_uploads"))["state"]
            assert state["messages"] == 4 + 1


async def test_half_an_upload_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard.bus.nats_objects.MAX_BUCKET_BYTES", 1_000_000)
    with NatsServer(tmp_path) as server:
        async with connect(server.url, "objects") as bus:
            with pytest.raises(Unavailable, match="full"):
                await bus.put_object("uploads", "big.tar", b"x" * 2_000_000)
            assert await bus.get_object("uploads", "big.tar") is None
            state = (await bus._jetstream.api("STREAM.INFO.OBJ_uploads"))["state"]
            assert state["messages"] == 0
            await bus.put_object("uploads", "small.tar", b"x" * 800_000)


async def test_an_object_with_chunks_missing_is_not_given_out(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with connect(server.url, "objects") as bus:
            await bus.put_object("uploads", "dir.tar", b"x" * 300_000)
            await bus._jetstream.api("STREAM.PURGE.OBJ_uploads", {"seq": 2})
            with pytest.raises(Unavailable, match="incomplete"):
                await bus.get_object("uploads", "dir.tar")
