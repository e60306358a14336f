import asyncio
import json

import pytest

from gpuyard.contracts.errors import Unavailable
from gpuyard.runtime.health import Health
from gpuyard.runtime.http import serve_health
from gpuyard.telemetry.metrics import Metrics


async def ask(port: int, request: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode()


async def test_a_service_tells_how_it_is() -> None:
    health, metrics = Health(), Metrics()
    metrics.counter("seen_total", "Seen.").inc()
    async with serve_health("127.0.0.1", 0, health, metrics) as port:
        assert await ask(port, get("/healthz")) == (200, b'{"ready":false,"why":"starting"}')
        assert (await ask(port, get("/readyz")))[0] == 503
        health.ready()
        health.note("term", 3)
        status, body = await ask(port, get("/readyz?x=1"))
        assert (status, json.loads(body)) == (200, {"ready": True, "why": "", "term": 3})
        status, body = await ask(port, get("/metrics"))
        assert status == 200
        assert b"seen_total 1.0" in body


async def test_bad_requests_harm_nobody() -> None:
    async with serve_health("127.0.0.1", 0, Health(), Metrics()) as port:
        assert (await ask(port, get("/nothing")))[0] == 404
        assert (await ask(port, b"POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"))[0] == 405
        assert await ask(port, b"\x00\xff garbage\r\n\r\n") == (0, b"")
        assert (await ask(port, get("/healthz")))[0] == 200


async def test_a_taken_port_is_named() -> None:
    async with serve_health("127.0.0.1", 0, Health(), Metrics()) as port:
        with pytest.raises(Unavailable, match=str(port)):
            async with serve_health("127.0.0.1", port, Health(), Metrics()):
                pass


def test_the_same_metric_is_handed_out_again() -> None:
    metrics = Metrics()
    assert metrics.gauge("g", "G.") is metrics.gauge("g", "G.")
