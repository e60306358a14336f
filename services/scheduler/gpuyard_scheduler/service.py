"""The shell around the scheduler's core: leads under a lease, feeds events in, carries effects out.

One scheduler leads; others wait for its lease to lapse. Every record is written under the fence of the
leader's term, so a leader that lost its lease without noticing can't write any more.
"""

import asyncio
import random
from collections.abc import Sequence

from gpuyard.bus.lease import Lease, Reign
from gpuyard.bus.port import Expect
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import Conflict, GpuyardError, Unavailable
from gpuyard.contracts.subjects import JOB, LEADER, ORDER, STATE_STREAM, STREAMS, TERM
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard.telemetry import traces
from gpuyard_scheduler.config import SchedulerConfig
from gpuyard_scheduler.core.events import Answer, Commit, Effect, Forget, Give
from gpuyard_scheduler.core.machine import Machine
from gpuyard_scheduler.inbox import Inbox, Incoming
from gpuyard_scheduler.measure import Measures

_ROUND_AGAIN_S = 1.0


class Deposed(Exception):
    """Another scheduler leads now, or might."""


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
        self._inbox = Inbox(context, config.tick_s)
        self._machine = Machine(reign.term, keep_ended=config.keep_ended)

    async def run(self) -> None:
        """Lead until deposed.

        Raises:
            Deposed: the lease is lost.
        """
        self._machine.load(await self._inbox.stored_jobs())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_lease())
            tasks.create_task(self._inbox.feed())
            tasks.create_task(self._decide())

    async def _watch_lease(self) -> None:
        await self._reign.lost.wait()
        raise Deposed(f"the lease of term {self._reign.term} is lost")

    async def _decide(self) -> None:
        context = self._context
        context.health.ready()
        while True:
            incoming = await self._inbox.next_round()
            started_s = context.clock.monotonic()
            for each in incoming:
                self._machine.handle(each.event, context.clock.now())
            effects = self._machine.decide(context.clock.now())
            self._measures.decided(context.clock.monotonic() - started_s, self._machine)
            await self._carry_out(effects)
            await _acknowledge(incoming)

    # -- effects -------------------------------------------------------------------------------------------

    async def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Records first; only then what rests on them."""
        await asyncio.gather(*(self._commit(effect) for effect in effects if isinstance(effect, Commit)))
        await asyncio.gather(*(self._give(effect) for effect in effects if isinstance(effect, Give)))
        for effect in effects:
            if isinstance(effect, Answer):
                await self._answer(effect)
            elif isinstance(effect, Forget):
                await self._forget(effect)

    async def _commit(self, effect: Commit) -> None:
        job = effect.job
        with traces.span("scheduler.commit", parent=job.trace, job=job.id, state=job.state):
            await self._append(
                JOB(job=job.id),
                encode(job),
                f"{job.id}.{job.version}.{job.term}",
                headers=traces.headers(),
                expect=self._reign.fence,
            )

    async def _give(self, effect: Give) -> None:
        order = effect.order
        kind = type(order).__name__.lower()
        with traces.span(f"scheduler.{kind}", parent=effect.trace, job=order.job, node=order.node):
            await self._append(
                ORDER(node=order.node),
                encode(order),
                f"{order.job}.{order.attempt}.{kind}.{order.node}.{order.term}",
                headers=traces.headers(),
            )

    async def _append(
        self,
        subject: str,
        payload: bytes,
        msg_id: str,
        *,
        headers: dict[str, str],
        expect: Expect | None = None,
    ) -> None:
        """Write until it is written or the lease is lost; the message id makes repeats harmless."""
        tries = 0
        while not self._reign.lost.is_set():
            try:
                await self._context.bus.append(
                    subject, payload, msg_id=msg_id, headers=headers, expect=expect
                )
            except Unavailable as error:
                tries += 1
                self._context.log.warning("write is tried again", subject=subject, error=str(error))
                await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter
            except Conflict as error:
                raise Deposed(f"the fence of term {self._reign.term} refused a write: {error}") from error
            else:
                return
        raise Deposed(f"the lease of term {self._reign.term} is lost")

    async def _answer(self, effect: Answer) -> None:
        """An answer that gets lost is asked for again by the client."""
        try:
            await self._context.bus.publish(effect.reply_to, encode(effect.reply))
        except GpuyardError as error:
            self._context.log.warning("answer not delivered", error=str(error))

    async def _forget(self, effect: Forget) -> None:
        """A history that is not deleted now is found and deleted by the next leader."""
        try:
            await self._context.bus.trim(STATE_STREAM, subject=JOB(job=effect.job))
        except GpuyardError as error:
            self._context.log.warning("history not deleted", job=effect.job, error=str(error))


async def _acknowledge(incoming: Sequence[Incoming]) -> None:
    """Requests are done with once everything that follows from them is on disk."""
    for each in incoming:
        if each.delivery:
            await each.delivery.ack()
