"""A yard's ports and secret token: chosen once, kept for the life of its directory."""

import errno
import secrets
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import SystemRandom

import msgspec
from msgspec import Struct

from gpuyard.client import locate
from gpuyard.contracts.errors import InvalidSpec, Unavailable

HOST = "127.0.0.1"
NATS = "nats-server"
NATS_HEALTH = "nats-health"
"""Where the nats-server tells how it is."""
# Below those that the kernel gives to outgoing connections, so that a restart finds its port free.
_CHOICE = range(20_000, 32_000)
_PATIENCE_S = 2.0


class Endpoints(Struct, frozen=True):
    """Ports by the name of the process, and the token that the server wants to see."""

    token: str
    ports: dict[str, int]

    @property
    def url(self) -> str:
        return f"nats://{self.token}@{HOST}:{self.ports[NATS]}"


def settle(path: Path, names: Iterable[str], port: int) -> Endpoints:
    """Read the yard's endpoints, choose what is missing, and keep them.

    Args:
        path: Where they are kept.
        names: The services; the server is added.
        port: Of the server; 0 keeps the old one or chooses.

    Raises:
        Unavailable: the server's port is taken.

    """
    kept = _read(path)
    wanted = port or kept.ports.get(NATS, 0)
    if wanted and (why := _why_taken_for_good(wanted)):
        raise Unavailable(
            f"port {wanted} for nats-server can't be opened: {why}",
            f"Stop what uses it (`ss -ltnp 'sport = :{wanted}'`), or choose another with `--port N`.",
            port=wanted,
        )
    ports = _with_services({NATS: wanted or _free_port(())}, names, kept.ports)
    endpoints = Endpoints(kept.token, ports)
    locate.write_private(path, msgspec.json.encode(endpoints))
    return endpoints


def _with_services(ports: dict[str, int], names: Iterable[str], kept: Mapping[str, int]) -> dict[str, int]:
    """Nobody outside knows the health ports by heart: one that is taken is simply chosen anew."""
    for name in names:
        old = kept.get(name, 0)
        is_good = old and old not in ports.values() and not why_taken(old)
        ports[name] = old if is_good else _free_port(ports.values())
    return ports


def _why_taken_for_good(port: int) -> str:
    """The server of a yard that was killed just now may still be about to end."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while (why := why_taken(port)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return why


def why_taken(port: int) -> str:
    """Why a port can't be listened on; empty if it can."""
    with socket.socket() as probe:
        # As the servers do: what a closed connection leaves behind does not block a port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return "something else uses it" if error.errno == errno.EADDRINUSE else str(error.strerror)
    return ""


def _free_port(taken: Iterable[int]) -> int:
    taken = set(taken)
    chance = SystemRandom()
    for _ in range(1000):
        port = chance.choice(_CHOICE)
        if port not in taken and not why_taken(port):
            return port
    raise Unavailable("no free port was found", "Choose one with `--port N`.")


def _read(path: Path) -> Endpoints:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Endpoints)
    except FileNotFoundError:
        return Endpoints(secrets.token_urlsafe(24), {})
    except msgspec.MsgspecError as error:
        raise InvalidSpec(f"{path} is damaged: {error}", "Delete it and run `gpuyard up` again.") from error
