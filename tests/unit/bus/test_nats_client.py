import pytest

from gpuyard.bus.nats_bus import connect
from gpuyard.bus.nats_client import Connection
from gpuyard.contracts.errors import InvalidSpec


@pytest.mark.parametrize(
    "url",
    [
        "",
        "garbage",
        "nats://[::1",
        "nats://",
        "nats://host:port",
        "ws://host:80",
        "host:4222",
        "nats://a:1,b:2",
    ],
)
async def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidSpec, match="is not the address of a bus") as caught:
        async with connect(url, "test", forever=True):
            pytest.fail("nothing to connect to")
    assert "nats://" in caught.value.hint
    assert "tls://" in caught.value.hint


@pytest.mark.parametrize("url", ["nats://secret@host:4222", "tls://host", "nats://[::1]:4222, tls://b:4223"])
async def test_addresses_are_taken(url: str) -> None:
    assert "secret" not in Connection(url, "test", "_INBOX").unavailable().message


async def test_a_token_is_not_shown() -> None:
    with pytest.raises(InvalidSpec, match="`host:80`"):
        Connection("ws://secret@host:80", "test", "_INBOX")


async def test_a_failure_without_words_is_not_quoted() -> None:
    connection = Connection("nats://host:4222", "test", "_INBOX")
    connection._failed(TimeoutError(), 0)
    assert connection.unavailable().message == "the bus at nats://host:4222 does not answer"
    connection._failed(OSError("refused"), 1)
    assert connection.unavailable().message == "the bus at nats://host:4222 does not answer (refused)"
