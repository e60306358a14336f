"""Watching that the nats-server works: alive is not enough.

A frozen server keeps its connections. A stream that met a full disk takes nothing more until the server is
restarted, even when there is room again. Clients see only time-outs. The server's own health check knows of
both, for every stream, without writing anything.
"""

import asyncio
import shutil
from pathlib import Path

from gpuyard.yard.probe import ask_health
from gpuyard.yard.processes import Watched
from gpuyard.yard.pulse import Pulse, after_look

_EVERY_S = 3.0
_ROOM_BYTES = 16 * 1024 * 1024


async def guard(server: Watched, health_port: int, store: Path) -> None:
    """Kill the server whenever it is stuck, for ever; it is then started again like after any other end."""
    while True:
        await _look_after(server, health_port, store)


async def _look_after(server: Watched, health_port: int, store: Path) -> None:
    """See one process through, until it is gone or killed."""
    pid, misses = server.pid, 0
    while server.pid == pid:
        await asyncio.sleep(_EVERY_S)
        pulse = await ask_health(health_port)
        if pulse is Pulse.STUCK and not await server.program.is_ready():
            continue  # it answers from the first moment, but reading a large store may take minutes
        misses, must_kill = after_look(misses, pulse, has_room=_has_room(store))
        if must_kill and pid is not None and server.pid == pid:
            server.kill(f"{server.name} is {pulse}")
            return


def _has_room(store: Path) -> bool:
    try:
        return shutil.disk_usage(store).free >= _ROOM_BYTES
    except OSError:
        return False
