"""Messages of a core subject between arrival and reading; both buses subscribe with it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from gpuyard.bus.port import Message

LIMIT = 65_536


class Mailbox:
    """See `gpuyard.bus.port.Subscription`."""

    def __init__(self) -> None:
        self.missed = 0
        self._messages: deque[Message] = deque(maxlen=LIMIT)
        self._arrived = asyncio.Event()

    def put(self, message: Message) -> None:
        self.missed += len(self._messages) == LIMIT
        self._messages.append(message)
        self._arrived.set()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        while not self._messages:
            self._arrived.clear()
            await self._arrived.wait()
        return self._messages.popleft()
