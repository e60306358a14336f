"""Everything the scheduler listens to, as one queue of events.

Snapshots first: jobs, nodes and facts as they are stored. Then one task for each source feeds the queue.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpuyard.bus.port import Delivery, From, Message, Reader
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.fact import Beat, ExecutorInfo, GangFact
from gpuyard.contracts.hardware import Inventory
from gpuyard.contracts.job import Job
from gpuyard.contracts.request import Request
from gpuyard.contracts.strict import check_keys
from gpuyard.contracts.subjects import (
    BEAT,
    EXECUTOR,
    FACT,
    FACTS_STREAM,
    INVENTORY,
    JOB,
    NODES_STREAM,
    REQUESTS_STREAM,
    SAMPLE,
    STATE_STREAM,
    Channel,
)
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.service import Context
from gpuyard.telemetry import traces
from gpuyard_scheduler.core.events import (
    BeatSeen,
    Event,
    ExecutorSeen,
    FactSeen,
    InventorySeen,
    Requested,
    Ticked,
)
from gpuyard_scheduler.core.load import NodeLook
from gpuyard_scheduler.refuse import refuse_unreadable


@dataclass(frozen=True, slots=True)
class Incoming:
    """An event, and the delivery to acknowledge once it has been dealt with."""

    event: Event
    delivery: Delivery | None = None


@dataclass(frozen=True)
class Stored:
    """What is in the stream: jobs, and the ids of those whose record this version can't read."""

    jobs: list[Job]
    unreadable: list[str]


class Inbox:
    """Feeds events of all sources into one queue while its tasks run."""

    def __init__(self, context: Context, tick_s: float, see_load: Callable[[NodeLook], Event | None]) -> None:
        self._context = context
        self._tick_s = tick_s
        self._see_load = see_load
        self._queue: asyncio.Queue[Incoming] = asyncio.Queue()
        self.is_current = False
        """Whether everything stored about nodes and ranks has been handed over."""

    async def next_round(self) -> list[Incoming]:
        """Wait for an event; return it with all others that are there."""
        batch = [await self._queue.get()]
        while not self._queue.empty():
            batch.append(self._queue.get_nowait())
        return batch

    async def stored_jobs(self) -> Stored:
        """Every job's newest record."""
        jobs, unreadable = [], []
        async with self._context.bus.read(STATE_STREAM, JOB.all, start=From.LAST_PER_SUBJECT) as reader:
            while reader.backlog:
                message = await anext(reader)
                try:
                    jobs.append(decode(message.payload, Job))
                except InvalidSpec as error:
                    unreadable.append(JOB.ids(message.subject)["job"])
                    await set_aside(self._context, message, error)
        return Stored(jobs, unreadable)

    async def feed(self) -> None:
        """Run until cancelled, or until a source breaks."""
        async with asyncio.TaskGroup() as tasks:
            nodes = asyncio.Event()
            tasks.create_task(self._feed_nodes(nodes))
            # Facts and requests make sense only where the nodes are known.
            await nodes.wait()
            facts = asyncio.Event()
            tasks.create_task(self._feed_facts(facts))
            await facts.wait()
            self.is_current = True
            tasks.create_task(self._feed_spoken(BEAT, lambda payload: BeatSeen(decode(payload, Beat).node)))
            tasks.create_task(
                self._feed_spoken(SAMPLE, lambda payload: self._see_load(decode(payload, NodeLook)))
            )
            tasks.create_task(self._feed_requests())
            tasks.create_task(self._feed_ticks())

    async def _feed_nodes(self, caught_up: asyncio.Event) -> None:
        async with self._context.bus.read(
            NODES_STREAM, INVENTORY.all, EXECUTOR.all, start=From.LAST_PER_SUBJECT
        ) as reader:
            await self._pump(reader, caught_up, self._node_event)

    async def _feed_facts(self, caught_up: asyncio.Event) -> None:
        async with self._context.bus.read(FACTS_STREAM, FACT.all, start=From.LAST_PER_SUBJECT) as reader:
            await self._pump(reader, caught_up, lambda message: FactSeen(decode(message.payload, GangFact)))

    async def _pump(self, reader: Reader, caught_up: asyncio.Event, read: Callable[[Message], Event]) -> None:
        if not reader.backlog:
            caught_up.set()
        async for message in reader:
            try:
                self._queue.put_nowait(Incoming(read(message)))
            except InvalidSpec as error:
                await set_aside(self._context, message, error)
            if not reader.backlog:
                caught_up.set()

    async def _feed_spoken(self, channel: Channel, read: Callable[[bytes], Event | None]) -> None:
        """What is said once and not kept: a lost message is harmless."""
        async with self._context.bus.subscribe(channel.all) as messages:
            async for message in messages:
                try:
                    if event := read(message.payload):
                        self._queue.put_nowait(Incoming(event))
                except InvalidSpec as error:
                    await set_aside(self._context, message, error)

    async def _feed_requests(self) -> None:
        async with self._context.bus.work(REQUESTS_STREAM, "scheduler") as work:
            async for delivery in work:
                try:
                    self._queue.put_nowait(Incoming(read_request(delivery.message), delivery))
                except InvalidSpec as error:
                    await refuse_unreadable(self._context, delivery.message, error)
                    await delivery.ack()

    async def _feed_ticks(self) -> None:
        while True:
            self._queue.put_nowait(Incoming(Ticked()))
            await self._context.clock.sleep(self._tick_s)

    @staticmethod
    def _node_event(message: Message) -> Event:
        if message.subject.startswith(EXECUTOR.all.removesuffix("*")):
            return ExecutorSeen(decode(message.payload, ExecutorInfo))
        return InventorySeen(decode(message.payload, Inventory))


def read_request(message: Message) -> Requested:
    """Decode a request strictly: what a client wrote by mistake must not be ignored.

    Raises:
        InvalidSpec: malformed, or a key nobody knows.
    """
    request: Request = decode(message.payload, Request)
    check_keys(decode(message.payload, Any), type(request))
    return Requested(request, message.headers.get(traces.HEADER, ""))
