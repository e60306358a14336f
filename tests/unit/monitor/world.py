"""A bus, a clock and a context for the monitor's tests; nothing here takes real time."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import structlog

from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.port import Appended, Expect, From, Message, Reader
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import Conflict, Unavailable
from gpuyard.contracts.hardware import Inventory, NodeSample
from gpuyard.contracts.subjects import INVENTORY, NODES_STREAM, SAMPLE, Stream
from gpuyard.runtime.clock import FakeClock
from gpuyard.runtime.health import Health
from gpuyard.runtime.service import Context
from gpuyard.telemetry.metrics import Metrics

LIMIT_S = 60.0


class FlakyBus(MemoryBus):
    """A bus that can go away (`down`), take no writes for a while (`open` cleared), or lose data (`lost`)."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(now=clock.now, sleep=clock.sleep)
        self.down = False
        self.deaf = 0
        """So many writes are done, but not acknowledged."""
        self.refused = ""
        """No writes to this subject."""
        self.open = asyncio.Event()
        self.open.set()
        self.lost = asyncio.Event()

    def _check(self) -> None:
        if self.down:
            raise Unavailable("the bus can't be reached", "Wait.")

    async def publish(
        self, subject: str, payload: bytes, *, headers: Mapping[str, str] | None = None
    ) -> None:
        self._check()
        await super().publish(subject, payload, headers=headers)

    async def append(
        self,
        subject: str,
        payload: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        msg_id: str = "",
        expect: Expect | None = None,
        ttl_s: float | None = None,
        timeout_s: float = 5.0,
    ) -> Appended:
        await self.open.wait()
        self._check()
        if subject == self.refused:
            raise Unavailable("no space left", "Wait.")
        appended = await super().append(subject, payload, headers=headers, msg_id=msg_id, timeout_s=timeout_s)
        if self.deaf:
            self.deaf -= 1
            raise Unavailable("no acknowledgement", "Wait.")
        return appended

    @asynccontextmanager
    async def read(
        self, stream: Stream, *subjects: str, start: From | int = From.FIRST
    ) -> AsyncIterator[Reader]:
        async with super().read(stream, *subjects, start=start) as reader:
            yield LosingReader(reader, self.lost)

    async def last(self, stream: Stream, subject: str) -> Message | None:
        self._check()
        return await super().last(stream, subject)


class LosingReader:
    """Ends as a reader does whose stream lost data, when told to."""

    def __init__(self, reader: Reader, lost: asyncio.Event) -> None:
        self._reader = reader
        self._lost = lost

    @property
    def backlog(self) -> int:
        return self._reader.backlog

    @backlog.setter
    def backlog(self, value: int) -> None:
        self._reader.backlog = value

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        coming = asyncio.ensure_future(anext(self._reader))
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            await asyncio.wait((coming, lost), return_when=asyncio.FIRST_COMPLETED)
            if self._lost.is_set():
                self._lost.clear()
                raise Conflict("the server lost data")
            return coming.result()
        finally:
            coming.cancel()
            lost.cancel()


class World:
    """What a monitor sees, and what others see of it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.bus = FlakyBus(self.clock)
        self.health = Health()
        self.metrics = Metrics()
        log = structlog.get_logger()
        self.context = Context("monitor", self.bus, self.clock, self.health, self.metrics, log)

    async def inventory(self, node: str) -> tuple[Inventory, int]:
        """The newest inventory and its sequence in the stream."""
        message = await MemoryBus.last(self.bus, NODES_STREAM, INVENTORY(node=node))
        assert message is not None
        return decode(message.payload, Inventory), message.seq

    def metric(self, line: str) -> float:
        """The value of one line of /metrics."""
        values = [
            text.rpartition(" ")[2]
            for text in self.metrics.render().decode().splitlines()
            if text.startswith(line)
        ]
        assert len(values) == 1, f"{line}: {values}"
        return float(values[0])

    async def until(self, true: Callable[[], object]) -> None:
        """Let the others run until it is so."""
        async with asyncio.timeout(LIMIT_S):
            while not true():
                await asyncio.sleep(0)

    @asynccontextmanager
    async def listening(self, node: str) -> AsyncIterator["Samples"]:
        async with self.bus.subscribe(SAMPLE(node=node)) as messages:
            yield Samples(self, aiter(messages))


class Samples:
    """Samples of one node as they come."""

    def __init__(self, world: World, messages: AsyncIterator[Message]) -> None:
        self._world = world
        self._messages = messages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> NodeSample:
        async with asyncio.timeout(LIMIT_S):
            return decode((await anext(self._messages)).payload, NodeSample)

    async def after(self, seconds: float = 1.0) -> NodeSample:
        """Let time pass, then the next sample."""
        self._world.clock.advance(seconds)
        return await anext(self)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run beside the body; an error of the work is the test's error."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()
