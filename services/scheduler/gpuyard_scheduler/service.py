"""The shell around the scheduler's core: leads under a lease, feeds events in, carries effects out.

One scheduler leads; others wait for its lease to lapse. Every record is written under the fence of the
leader's term, so a leader that lost its lease without noticing can't write any more.
"""

import asyncio
from collections.abc import Sequence

from gpuyard.bus.lease import Lease, Reign
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.subjects import LEADER, STATE_STREAM, STREAMS, TERM
from gpuyard.runtime.service import Context
from gpuyard_scheduler.config import SchedulerConfig
from gpuyard_scheduler.core.events import Answer, Commit, Effect, Event, Forget, Give, LoadSeen, Requested
from gpuyard_scheduler.core.load import Loads, NodeLook
from gpuyard_scheduler.core.machine import Machine
from gpuyard_scheduler.inbox import Inbox, Incoming
from gpuyard_scheduler.measure import Measures
from gpuyard_scheduler.outbox import Outbox
from gpuyard_scheduler.pen import Deposed, Pen

_ROUND_AGAIN_S = 1.0


class SchedulerService:
    """Leads whenever it can, for as long as it can."""

    def __init__(self, config: SchedulerConfig, context: Context, owner: str) -> None:
        self._config = config
        self._context = context
        self._owner = owner
        self._measures = Measures(context.metrics)

    async def run(self) -> None:
        context = self._context
        while True:
            try:
                await context.bus.ensure(STREAMS)
                await self._lead()
            except* (Deposed, GpuyardError) as errors:
                reason = "; ".join(str(error) for error in errors.exceptions)
                context.health.not_ready(reason)
                context.log.warning("does not lead", reason=reason)
            await context.clock.sleep(_ROUND_AGAIN_S)

    async def _lead(self) -> None:
        context = self._context
        lease = Lease(
            context.bus,
            STATE_STREAM,
            LEADER(),
            TERM(),
            owner=self._owner,
            clock=context.clock,
            ttl_s=self._config.lease_s,
        )
        context.health.not_ready("standing by")
        reign = await lease.acquire()
        context.log.info("leads", term=reign.term)
        context.health.note("term", reign.term)
        try:
            await Leadership(self._config, context, reign, self._measures).run()
        finally:
            await reign.resign()


class Leadership:
    """One reign: from reading the stored state to losing the lease."""

    def __init__(self, config: SchedulerConfig, context: Context, reign: Reign, measures: Measures) -> None:
        self._context = context
        self._reign = reign
        self._measures = measures
        self._machine = Machine(reign.term, keep_ended=config.keep_ended)
        self._loads = Loads()
        self._inbox = Inbox(context, config.tick_s, self._see_load)
        self._pen = Pen(context, reign)
        self._forgets: asyncio.Queue[Forget] = asyncio.Queue()

    async def run(self) -> None:
        """Lead until deposed.

        Raises:
            Deposed: the lease is lost.
        """
        stored = await self._inbox.stored_jobs()
        clock = self._context.clock
        self._machine.load(stored.jobs, clock.now(), clock.monotonic(), stored.unreadable)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_lease())
            tasks.create_task(self._inbox.feed())
            tasks.create_task(self._forget())
            tasks.create_task(self._decide(Outbox(tasks, self._pen.give)))

    def _see_load(self, look: NodeLook) -> LoadSeen | None:
        return self._loads.see(look, held=self._machine.cluster.holders(look.node))

    async def _watch_lease(self) -> None:
        await self._reign.lost.wait()
        raise Deposed(f"the lease of term {self._reign.term} is lost")

    async def _decide(self, outbox: Outbox) -> None:
        clock = self._context.clock
        while True:
            incoming = await self._inbox.next_round()
            started_s = clock.monotonic()
            for each in incoming:
                self._take_in(each.event, started_s)
            effects = self._machine.decide(clock.now(), started_s)
            self._measures.decided(clock.monotonic() - started_s, self._machine)
            await self._carry_out(effects, outbox)
            await _acknowledge(incoming)
            self._report()

    def _take_in(self, event: Event, mono_s: float) -> None:
        try:
            self._machine.handle(event, self._context.clock.now(), mono_s)
        except Exception as error:
            # A bug met by one job must not take the scheduler from all of them.
            self._measures.stumbled()
            self._context.log.error("event skipped", skipped=_name(event), error=repr(error), exc_info=True)

    async def _carry_out(self, effects: Sequence[Effect], outbox: Outbox) -> None:
        """Records first; only then what rests on them."""
        await asyncio.gather(*(self._pen.commit(effect) for effect in effects if isinstance(effect, Commit)))
        for effect in effects:
            match effect:
                case Give():
                    outbox.put(effect)
                case Answer():
                    await self._pen.answer(effect)
                case Forget():
                    self._forgets.put_nowait(effect)

    def _report(self) -> None:
        """Ready means: everything stored was read, decisions get written, the bus answers."""
        health = self._context.health
        if not self._inbox.is_current:
            health.not_ready("reads what is stored")
        elif not self._context.bus.connected:
            health.not_ready("the bus does not answer")
        elif self._pen.failing:
            subject, why = next(iter(self._pen.failing.items()))
            health.not_ready(f"a write to {subject} fails: {why}")
        else:
            health.ready()

    async def _forget(self) -> None:
        while True:
            await self._pen.forget(await self._forgets.get())


def _name(event: Event) -> str:
    """What kind of event it is. Not what it holds: environments have secrets."""
    if isinstance(event, Requested):
        return f"{type(event.request).__name__} {event.request.request_id}"
    return type(event).__name__


async def _acknowledge(incoming: Sequence[Incoming]) -> None:
    """Requests are done with once everything that follows from them is on disk."""
    for each in incoming:
        if each.delivery:
            await each.delivery.ack()
