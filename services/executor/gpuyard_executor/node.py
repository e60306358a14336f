"""The shell around the core for one node: feeds events in, carries effects out, one after the other.

Whatever may take long (fetching, shipping, publishing, deleting) is a task of its own and reports back by an
event. So the loop never waits, and orders are acknowledged as soon as they are on disk.
"""

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpuyard.bus.port import Delivery, From
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.fact import GangFact
from gpuyard.contracts.order import Prepare
from gpuyard.contracts.subjects import FACT, FACTS_STREAM
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard_executor.core.events import (
    Adopted,
    DropFact,
    Effect,
    Event,
    FactPublished,
    ForgetGang,
    MakeWorkdir,
    OutputShipped,
    PortReserved,
    PrepareRank,
    PublishFact,
    RankChanged,
    RecordOrder,
    RefuseOrder,
    ReservePort,
    ShipOutput,
    StartRank,
    StopRank,
    WorkdirMade,
)
from gpuyard_executor.core.gangs import Gangs
from gpuyard_executor.core.rank import GangKey
from gpuyard_executor.core.redaction import Redactor
from gpuyard_executor.engine import Engine
from gpuyard_executor.journal import Entry, Journal
from gpuyard_executor.log_wire import LogWire
from gpuyard_executor.measure import Measures
from gpuyard_executor.ports import Ports
from gpuyard_executor.progress import ProgressFile
from gpuyard_executor.publisher import Publisher
from gpuyard_executor.runs import Runs
from gpuyard_executor.shipper import Shipper
from gpuyard_executor.workdirs import WorkdirFailed, Workdirs

_RETRY_S = 5.0

_Lasting = MakeWorkdir | ShipOutput | DropFact | ForgetGang


@dataclass(frozen=True)
class NodePlace:
    """Where a node's executor works."""

    name: str
    home: Path
    address: str
    keep_workdirs: int
    owner: tuple[int, int] | None = None
    """User and group of its ranks if they run in containers; None: they are plain processes."""


class Node:
    """What runs on one node. `adopt`, then `work` and `watch` for ever."""

    def __init__(
        self, place: NodePlace, context: Context, engine: Engine, ports: Ports, base_env: dict[str, str]
    ) -> None:
        self.name = place.name
        self._place = place
        self._context = context
        self._engine = engine
        self._ports = ports
        self._journal = Journal(place.home / "orders")
        self._shipped = place.home / "shipped"
        self._shipped.mkdir(exist_ok=True, mode=0o700)
        self._workdirs = Workdirs(place.home, context.bus, context.clock, place.keep_workdirs, place.owner)
        self._gangs = Gangs(
            place.name, place.address, str(self._workdirs.root), base_env, is_boxed=place.owner is not None
        )
        self._incoming: asyncio.Queue[tuple[Event, Delivery | None]] = asyncio.Queue()
        self._is_recorded = True
        """Whether the order in hand is on disk."""
        self._publisher = Publisher(context.bus, context.clock, context.log, self._on_published)
        self._runs = Runs(place.name)
        self._measures = Measures(context.metrics, place.name)
        self._tasks: set[asyncio.Task[None]] = set()

    # -- events in -----------------------------------------------------------------------------------------

    def receive(self, event: Event, delivery: Delivery | None = None) -> None:
        """Take an event; an order with its delivery, which is acknowledged once the order is on disk."""
        self._incoming.put_nowait((event, delivery))

    def _on_published(self, fact: GangFact) -> None:
        self.receive(FactPublished(fact))

    async def adopt(self) -> None:
        """Take over what an executor before this one left."""
        entries = self._journal.read()
        statuses = tuple(await self._engine.list())
        for entry in entries:
            gang = GangKey(entry.order.job, entry.order.attempt)
            self._workdirs.hold(gang)
            if isinstance(entry.order, Prepare):
                self._runs.begin(gang, entry.trace)
        facts = tuple(await self._published_facts())
        await self._handle(Adopted(tuple(entry.order for entry in entries), statuses, facts))

    async def _published_facts(self) -> list[GangFact]:
        facts = []
        wanted = FACT.some(node=self.name)
        async with self._context.bus.read(FACTS_STREAM, wanted, start=From.LAST_PER_SUBJECT) as reader:
            while reader.backlog:
                message = await anext(reader)
                try:
                    fact = decode(message.payload, GangFact)
                except InvalidSpec as error:
                    await set_aside(self._context, message, error)
                    continue
                facts.append(fact)
                self._publisher.note(fact.job, message.seq)
        return facts

    async def watch(self) -> None:
        """Follow the engine."""
        async for status in self._engine.changes():
            self.receive(RankChanged(status))

    async def work(self) -> None:
        """Handle events for ever."""
        try:
            while True:
                event, delivery = await self._incoming.get()
                self._is_recorded = True
                await self._handle(event)
                if delivery:
                    await self._acknowledge(delivery)
        finally:
            await self._close()

    def stand(self) -> None:
        """Bring the metrics up to date."""
        self._measures.stand(self._gangs, _size_of(self._place.home / "ranks"))

    # -- effects out ---------------------------------------------------------------------------------------

    async def _handle(self, event: Event) -> None:
        for effect in self._gangs.handle(event, self._context.clock.now()):
            await self._carry_out(effect)

    async def _carry_out(self, effect: Effect) -> None:
        match effect:
            case PrepareRank(plan):
                await self._engine.prepare(plan)
            case StartRank(key, env):
                await self._engine.start(key, env)
            case StopRank(key, grace_s):
                await self._engine.stop(key, grace_s)
            case MakeWorkdir(upload=""):
                await self._make_workdir(effect)
            case MakeWorkdir() | ShipOutput() | DropFact():
                self._run(self._insist(effect))
            case _:
                self._note(effect)

    def _note(self, effect: RecordOrder | RefuseOrder | ReservePort | PublishFact | ForgetGang) -> None:
        match effect:
            case RecordOrder(order, trace):
                self._record(Entry(order, trace))
            case RefuseOrder(order, why):
                self._measures.refused(order)
                self._context.log.info("order refused", job=order.job, attempt=order.attempt, why=why)
            case ReservePort(gang, port):
                self.receive(PortReserved(gang, self._ports.reserve(gang, port)))
            case PublishFact(fact):
                self._publish(fact)
            case ForgetGang():
                self._forget(effect)

    async def _insist(self, effect: _Lasting) -> None:
        """Try until it is done: nobody asks for it again."""
        tries = 0
        while True:
            try:
                await self._take_time(effect)
            except Exception as error:  # noqa: BLE001 - whatever it is, the gang would never be over
                tries += 1
                self._context.log.warning("tried again", what=repr(effect), error=repr(error))
                await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter
            else:
                return
            if isinstance(effect, ShipOutput):
                effect = replace(effect, is_resumed=True)

    async def _take_time(self, effect: _Lasting) -> None:
        match effect:
            case MakeWorkdir():
                await self._make_workdir(effect)
            case ShipOutput():
                await self._ship(effect)
            case DropFact(job):
                await self._context.bus.trim(FACTS_STREAM, subject=FACT(node=self.name, job=job))
                self._publisher.note(job, 0)
            case ForgetGang():
                await self._remove(effect)

    async def _acknowledge(self, delivery: Delivery) -> None:
        """An order that is not on disk, or whose acknowledgement gets lost, comes again: that is harmless."""
        try:
            if self._is_recorded:
                await delivery.ack()
            else:
                await delivery.nak(_RETRY_S)
        except GpuyardError as error:
            self._context.log.warning("order comes again", node=self.name, error=str(error))

    def _record(self, entry: Entry) -> None:
        try:
            self._journal.write(entry)
        except OSError as error:
            self._is_recorded = False
            self._context.log.error("order can't be recorded", node=self.name, error=str(error))
        self._measures.obeyed(entry.order)
        if isinstance(entry.order, Prepare):
            self._runs.begin(GangKey(entry.order.job, entry.order.attempt), entry.trace)

    async def _make_workdir(self, effect: MakeWorkdir) -> None:
        try:
            await self._workdirs.make(effect.gang, effect.upload)
        except WorkdirFailed as error:
            self.receive(WorkdirMade(effect.gang, str(error)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the gang must not wait for ever
            self._context.log.error("working directory failed", node=self.name, error=repr(error))
            self.receive(WorkdirMade(effect.gang, f"the working directory can't be made: {error!r}"))
        else:
            self.receive(WorkdirMade(effect.gang))

    async def _ship(self, effect: ShipOutput) -> None:
        context, key = self._context, effect.key
        wire = LogWire(context.bus, context.log, self._runs.headers(key.gang), self._measures.sent)
        engine = None if effect.is_empty else self._engine
        file, redactor = ProgressFile(self._shipped / str(key)), Redactor(effect.secrets)
        shipper = Shipper(key, engine, file, wire, redactor)
        await shipper.run(is_resumed=effect.is_resumed)
        self.receive(OutputShipped(effect.key))

    def _publish(self, fact: GangFact) -> None:
        gang = GangKey(fact.job, fact.attempt)
        self._publisher.publish(fact, self._runs.headers(gang))
        if launch_s := self._runs.see(fact):
            self._measures.launched(launch_s)
        if fact.released:
            self._ports.free(gang)

    def _forget(self, effect: ForgetGang) -> None:
        self._journal.forget(effect.gang)
        self._runs.forget(effect.gang)
        self._run(self._insist(effect))

    async def _remove(self, effect: ForgetGang) -> None:
        for key in effect.ranks:
            await self._engine.remove(key)
            ProgressFile(self._shipped / str(key)).remove()
        await self._workdirs.release(effect.gang)

    # -- tasks ---------------------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._context.log.error("task failed", node=self.name, error=repr(error))

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._publisher.close()


def _size_of(ranks: Path) -> int:
    """Bytes of output below a directory of ranks; what vanishes meanwhile does not count."""
    total = 0
    for rank in _entries(ranks):
        for path in _entries(rank):
            if path.name.startswith("out."):
                with contextlib.suppress(OSError):
                    total += path.stat().st_size
    return total


def _entries(directory: Path) -> list[Path]:
    try:
        return list(directory.iterdir())
    except OSError:
        return []
