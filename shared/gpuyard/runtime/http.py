"""/healthz, /readyz and /metrics of a service. Only GET, one request per connection, small on purpose."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h11
import msgspec

from gpuyard.contracts.errors import Unavailable
from gpuyard.runtime.health import Health
from gpuyard.telemetry.metrics import Metrics

_PATIENCE_S = 5.0
Answer = tuple[int, str, bytes]


@asynccontextmanager
async def serve_health(host: str, port: int, health: Health, metrics: Metrics) -> AsyncIterator[int]:
    """Answer probes while the body runs; yields the port.

    Raises:
        Unavailable: the port is taken or not allowed.
    """

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await _answer_one(reader, writer, health, metrics)
        except (TimeoutError, ConnectionError, h11.RemoteProtocolError):
            pass  # a prober that misbehaves or went away concerns nobody
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(on_connection, host, port)
    except OSError as error:
        raise Unavailable(
            f"the health port {host}:{port} can't be opened: {error}", "Choose another with --health-port."
        ) from error
    async with server:
        yield server.sockets[0].getsockname()[1]


async def _answer_one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, health: Health, metrics: Metrics
) -> None:
    connection = h11.Connection(h11.SERVER)
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(4096))
    if not isinstance(event, h11.Request):
        return
    status, kind, body = answer(event.method, event.target.partition(b"?")[0], health, metrics)
    head = h11.Response(
        status_code=status,
        headers=[("content-type", kind), ("content-length", str(len(body))), ("connection", "close")],
    )
    for part in (head, h11.Data(data=body), h11.EndOfMessage()):
        writer.write(connection.send(part) or b"")
    await writer.drain()


def answer(method: bytes, path: bytes, health: Health, metrics: Metrics) -> Answer:
    """Status, content type and body for a request."""
    if method != b"GET":
        return 405, "text/plain", b"only GET\n"
    if path == b"/metrics":
        return 200, "text/plain; version=0.0.4; charset=utf-8", metrics.render()
    if path not in (b"/healthz", b"/readyz"):
        return 404, "text/plain", b"try /healthz, /readyz or /metrics\n"
    status = 200 if path == b"/healthz" or health.is_ready else 503
    return status, "application/json", msgspec.json.encode(health.report())
