"""The executor's end of the connection to a rank's supervisor or keeper."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from gpuyard_executor.rank_directory import RankDirectory


class SupervisorLink(asyncio.Protocol):
    """Connects as often as it is asked to. What is told before a connection is sent by the next one."""

    def __init__(self, directory: RankDirectory, heard: Callable[[Mapping[str, Any]], None]) -> None:
        self._directory = directory
        self._heard = heard
        self._spooled = asyncio.Event()
        self._unsent: list[bytes] = []
        self._lost = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._partial = b""

    @property
    def is_up(self) -> bool:
        return self._transport is not None

    async def hold(self) -> None:
        """Connect, and return when the connection is lost.

        Raises:
            OSError: there is nobody to connect to.

        """
        self._lost.clear()
        connection = self._directory.connect()
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=connection)
        await self._lost.wait()

    def disconnect(self) -> None:
        if self._transport:
            self._transport.abort()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send as soon as there is a connection; nobody waits for that."""
        line = json.dumps(message).encode() + b"\n"
        if self._transport:
            self._transport.write(line)
        else:
            self._unsent.append(line)

    async def output_after(self, offset: int) -> None:
        """Wait until there may be output beyond a position. May return early."""
        self._spooled.clear()
        if self._transport:
            self._transport.write(json.dumps({"do": "wait", "offset": offset}).encode() + b"\n")
        await self._spooled.wait()

    def wake(self) -> None:
        """Let whoever waits for output look again."""
        self._spooled.set()

    # -- called by the loop --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._partial = b""
        for line in self._unsent:
            transport.write(line)
        self._unsent.clear()
        self.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost.set()

    def data_received(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "output" in message:
                self.wake()
            else:
                self._heard(message)
