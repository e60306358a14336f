import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gpuyard.yard.endpoints import HOST
from gpuyard.yard.probe import ask_health, ask_nats, ask_service
from gpuyard.yard.pulse import Pulse

INFO = b'INFO {"version":"2.15.1","jetstream":true}\r\n'


@asynccontextmanager
async def answering(*pieces: bytes, is_silent: bool = False) -> AsyncIterator[int]:
    """A server that says these pieces one after the other, then hangs up or falls silent."""

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
        if not is_silent:
            writer.write_eof()
        await reader.read()
        writer.close()
        gone.set()

    gone = asyncio.Event()
    async with await asyncio.start_server(on_connection, HOST, 0) as server:
        yield server.sockets[0].getsockname()[1]
        await gone.wait()


def http(status: str, body: bytes) -> tuple[bytes, bytes]:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode(), body


async def test_a_service_that_is_ready() -> None:
    async with answering(*http("200 OK", b'{"ready":true,"why":"","term":3}')) as port:
        report = await ask_service(port)
    assert report.is_ready
    assert report.facts["term"] == 3


async def test_a_service_that_is_not_says_why() -> None:
    async with answering(*http("503 Service Unavailable", b'{"ready":false,"why":"no lease"}')) as port:
        report = await ask_service(port)
    assert (report.is_ready, report.why) == (False, "no lease")


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0\r\n", b"HTTP/1.1\r\n\r\n{}", b"HTTP/1.1 200 OK\r\n\r\n[]"])
async def test_a_stranger_on_the_port(answer: bytes) -> None:
    async with answering(answer) as port:
        report = await ask_service(port)
    assert not report.is_ready
    assert "something else" in report.why


async def test_nobody_there() -> None:
    async with answering() as port:
        await ask_service(port)
    assert "no answer" in (await ask_service(port)).why
    assert "no answer" in (await ask_nats(port, "t")).why


async def test_silence_ends_in_time() -> None:
    async with answering(is_silent=True) as port:
        assert "timed out" in (await ask_service(port, timeout_s=0.05)).why
    async with answering(is_silent=True) as port:
        assert "timed out" in (await ask_nats(port, "t", timeout_s=0.05)).why


async def test_a_server_that_lets_us_in() -> None:
    async with answering(INFO, b"PONG\r\n") as port:
        report = await ask_nats(port, "t")
    assert report.is_ready
    assert report.facts["version"] == "2.15.1"


@pytest.mark.parametrize(
    ("pieces", "why"),
    [
        ((INFO, b"-ERR 'Authorization Violation'\r\n"), "Authorization Violation"),
        ((INFO,), "hung up"),
        ((b'INFO {"jetstream":false}\r\n', b"PONG\r\n"), "no JetStream"),
        ((b"+OK redis\r\n",), "something else"),
        ((b"INFO nonsense\r\n",), "something else"),
    ],
)
async def test_a_server_that_does_not(pieces: tuple[bytes, ...], why: str) -> None:
    async with answering(*pieces) as port:
        report = await ask_nats(port, "t")
    assert not report.is_ready
    assert why in report.why


@pytest.mark.parametrize(
    ("answer", "pulse"),
    [
        (http("200 OK", b'{"status":"ok"}'), Pulse.WELL),
        (http("503 Service Unavailable", b'{"status":"unavailable"}'), Pulse.STUCK),
        ((), Pulse.SILENT),
    ],
)
async def test_the_health_of_a_nats_server(answer: tuple[bytes, ...], pulse: Pulse) -> None:
    async with answering(*answer) as port:
        assert await ask_health(port) is pulse


async def test_a_frozen_nats_server_is_silent() -> None:
    async with answering(is_silent=True) as port:
        assert await ask_health(port, timeout_s=0.1) is Pulse.SILENT
