"""Asking the processes of a yard how they are, without their libraries: a few lines of HTTP and of NATS."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from gpuyard.yard.endpoints import HOST
from gpuyard.yard.pulse import Pulse

_TIMEOUT_S = 2.0
_HEALTH_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Report:
    """What a process said of itself."""

    is_ready: bool
    why: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


async def ask_service(port: int, timeout_s: float = _TIMEOUT_S) -> Report:
    """GET /readyz of a service; never raises."""
    try:
        async with asyncio.timeout(timeout_s):
            answer = await _exchange(
                port, b"GET /readyz HTTP/1.1\r\nHost: gpuyard\r\nConnection: close\r\n\r\n"
            )
        head, _, body = answer.partition(b"\r\n\r\n")
        facts = json.loads(body)
        return Report(head.split()[1] == b"200", str(facts.get("why", "")), facts)
    except (OSError, TimeoutError) as error:
        return Report(False, f"no answer on port {port}: {str(error) or 'timed out'}")
    except (ValueError, IndexError, AttributeError):
        return Report(False, f"something else answers on port {port}")


async def ask_health(port: int, timeout_s: float = _HEALTH_TIMEOUT_S) -> Pulse:
    """GET /healthz of the nats-server, which looks at every stream; never raises."""
    try:
        async with asyncio.timeout(timeout_s):
            answer = await _exchange(port, b"GET /healthz HTTP/1.0\r\n\r\n")
    except (OSError, TimeoutError):
        return Pulse.SILENT
    if not answer:
        return Pulse.SILENT
    return Pulse.WELL if b" 200 " in answer.partition(b"\r\n")[0] else Pulse.STUCK


async def _exchange(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()


async def ask_nats(port: int, token: str, timeout_s: float = _TIMEOUT_S) -> Report:
    """Log in to the nats-server and wait for its pong; never raises."""
    try:
        async with asyncio.timeout(timeout_s):
            return await _log_in(port, token)
    except (OSError, TimeoutError) as error:
        return Report(False, f"no answer on port {port}: {str(error) or 'timed out'}")
    except ValueError:
        return Report(False, f"something else answers on port {port}")


async def _log_in(port: int, token: str) -> Report:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        word, _, greeting = (await reader.readline()).partition(b" ")
        if word != b"INFO":
            raise ValueError(word)
        facts = json.loads(greeting)
        login = json.dumps({"auth_token": token, "verbose": False, "pedantic": False})
        writer.write(f"CONNECT {login}\r\nPING\r\n".encode())
        answer = (await reader.readline()).decode(errors="replace").strip()
    finally:
        writer.close()
    if answer != "PONG":
        return Report(False, answer or "it hung up", facts)
    return Report(bool(facts.get("jetstream")), "" if facts.get("jetstream") else "no JetStream", facts)
