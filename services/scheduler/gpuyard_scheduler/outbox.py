"""Orders on their way: for each node one after the other, for all nodes at once.

Orders rest on records that are on disk, so nothing waits for them here: a node whose orders can't be sent
holds up neither decisions nor other nodes.
"""

import asyncio
from collections.abc import Awaitable, Callable

from gpuyard_scheduler.core.events import Give


class Outbox:
    """Sends by tasks of the given group, one for each node."""

    def __init__(self, tasks: asyncio.TaskGroup, send: Callable[[Give], Awaitable[None]]) -> None:
        self._tasks = tasks
        self._send = send
        self._waiting: dict[str, asyncio.Queue[Give]] = {}

    def put(self, give: Give) -> None:
        """Send after everything that waits for the same node."""
        node = give.order.node
        if node not in self._waiting:
            self._waiting[node] = asyncio.Queue()
            self._tasks.create_task(self._empty(self._waiting[node]))
        self._waiting[node].put_nowait(give)

    async def _empty(self, waiting: asyncio.Queue[Give]) -> None:
        while True:
            await self._send(await waiting.get())
