"""Reading nodes from where they are told: once, or over and over.

A subscription to samples and beats is joined with the records of nodes and jobs. Records are read once and
then followed, so that each tick costs what has changed and not what there is.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from gpuyard.bus.port import Bus, From, Message, Subscription
from gpuyard.client import records
from gpuyard.client.cluster import Cluster
from gpuyard.client.node_view import NodeView
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import Conflict, Fault, InvalidSpec, Unavailable
from gpuyard.contracts.fact import ExecutorInfo
from gpuyard.contracts.hardware import Inventory, NodeSample
from gpuyard.contracts.subjects import (
    BEAT,
    EXECUTOR,
    INVENTORY,
    JOB,
    NODES_STREAM,
    SAMPLE,
    STATE_STREAM,
    Channel,
    Stream,
)

# Monitors publish once a second: who is not heard in this time does not publish.
SAMPLE_WAIT_S = 1.2
_AGAIN_AFTER_S = 1.0

T = TypeVar("T")


async def read(bus: Bus, *, sample_wait_s: float = SAMPLE_WAIT_S) -> list[NodeView]:
    """Every known node, sorted by name.

    Args:
        sample_wait_s: How long to listen for samples and beats; 0 leaves measurements out and hears nobody.

    """
    async with _following(bus) as feed:
        await feed.all_sampled(sample_wait_s)
        return feed.views()


async def watch(bus: Bus, *, every_s: float = 1.0) -> AsyncGenerator[list[NodeView], None]:
    """Every known node, again and again, for ever. The first time when all have spoken or had the time to.

    Raises:
        Unavailable: the bus can't be reached at the beginning. Later it is waited for: nodes turn silent.

    """
    async with _following(bus) as feed:
        await feed.all_sampled(SAMPLE_WAIT_S)
        while True:
            yield feed.views()
            await feed.go_on(every_s)


class _Feed:
    """Listens and follows in tasks of its own."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._cluster = Cluster()
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def begin(self, samples: Subscription, beats: Subscription) -> None:
        """Return once all records are read."""
        nodes, jobs = asyncio.Event(), asyncio.Event()
        self._tasks = {
            asyncio.create_task(self._hear(samples, self._take_sample)),
            asyncio.create_task(self._hear(beats, self._take_beat)),
            asyncio.create_task(
                self._follow(
                    NODES_STREAM, (INVENTORY, EXECUTOR), self._take_node, self._cluster.forget_nodes, nodes
                )
            ),
            asyncio.create_task(
                self._follow(STATE_STREAM, (JOB,), self._take_job, self._cluster.forget_jobs, jobs)
            ),
        }
        for read in (nodes, jobs):
            await self._unless_broken(read)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def views(self) -> list[NodeView]:
        return self._cluster.views(time.monotonic())

    async def all_sampled(self, wait_s: float) -> None:
        """Wait for one sample of each node, of as many as speak in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self._cluster.unsampled:
                    self._news.clear()
                    await self._news.wait()

    async def go_on(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            Fault: a record can't be read.

        """
        broken, _ = await asyncio.wait(self._tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for task in broken:
            task.result()

    async def _unless_broken(self, event: asyncio.Event) -> None:
        """Wait for the event, or raise what broke a task."""
        waiting = asyncio.create_task(event.wait())
        try:
            done, _ = await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            waiting.cancel()

    async def _hear(self, spoken: Subscription, take: Callable[[Message], None]) -> None:
        async for message in spoken:
            with suppress(InvalidSpec):  # not ours to judge; the next one comes soon
                take(message)
            self._news.set()

    async def _follow(
        self,
        stream: Stream,
        channels: tuple[Channel, ...],
        take: Callable[[Message], None],
        forget: Callable[[], None],
        caught_up: asyncio.Event,
    ) -> None:
        """Take the newest record of each subject, then each as it is written, for ever."""
        subjects = [channel.all for channel in channels]
        while True:
            try:
                async with self._bus.read(stream, *subjects, start=From.LAST_PER_SUBJECT) as reader:
                    forget()
                    while reader.backlog:
                        take(await anext(reader))
                    caught_up.set()
                    async for message in reader:
                        take(message)
            except Conflict:  # the stream was found behind what was read: what it holds now is the truth
                continue
            except Unavailable:
                if not caught_up.is_set():
                    raise
                await asyncio.sleep(_AGAIN_AFTER_S)

    def _take_sample(self, message: Message) -> None:
        self._cluster.take_sample(decode(message.payload, NodeSample), time.monotonic())

    def _take_beat(self, message: Message) -> None:
        self._cluster.take_beat(BEAT.ids(message.subject)["node"], time.monotonic())

    def _take_node(self, message: Message) -> None:
        if message.subject.startswith(INVENTORY(node="")):
            self._cluster.take_inventory(_record(message, Inventory))
        else:
            self._cluster.take_executor(_record(message, ExecutorInfo))

    def _take_job(self, message: Message) -> None:
        self._cluster.take_job(records.parse_job(message))


@asynccontextmanager
async def _following(bus: Bus) -> AsyncIterator[_Feed]:
    """A feed that has read all there is."""
    feed = _Feed(bus)
    async with bus.subscribe(SAMPLE.all) as samples, bus.subscribe(BEAT.all) as beats:
        try:
            await feed.begin(samples, beats)
            yield feed
        finally:
            await feed.end()


def _record(message: Message, kind: type[T]) -> T:
    try:
        return decode(message.payload, kind)
    except InvalidSpec as error:
        raise Fault(
            f"the record on {message.subject} can't be read: {error.message}",
            "This client may be older than the node's services: update gpuyard.",
        ) from error
