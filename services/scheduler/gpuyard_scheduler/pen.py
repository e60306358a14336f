"""Everything the scheduler writes: records under the fence of its term, orders, answers, deletions."""

import random

from gpuyard.bus.lease import Reign
from gpuyard.bus.port import Expect
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import Conflict, GpuyardError, InvalidSpec, Unavailable
from gpuyard.contracts.subjects import FACT, FACTS_STREAM, JOB, ORDER, STATE_STREAM
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard.telemetry import traces
from gpuyard_scheduler.core.events import Answer, Commit, Forget, Give


class Deposed(Exception):
    """Another scheduler leads now, or might."""


class Pen:
    """Writes for one reign. Durable writes are tried again until they succeed or the lease is lost."""

    def __init__(self, context: Context, reign: Reign) -> None:
        self._context = context
        self._reign = reign
        self.failing: dict[str, str] = {}
        """Subjects that take no writes now, and why."""

    async def commit(self, effect: Commit) -> None:
        """Write a record.

        Raises:
            Deposed: the lease is lost, or the fence refused the write.
        """
        job = effect.job
        with traces.span("scheduler.commit", parent=job.trace, job=job.id, state=job.state):
            try:
                record = encode(job)
            except InvalidSpec as error:
                # Admission makes this impossible. If it happens all the same, it must cost this job's record
                # only, not everybody's scheduler.
                self._context.log.error("record can't be written", job=job.id, error=str(error))
                return
            await self._append(
                JOB(job=job.id),
                record,
                f"{job.id}.{job.version}.{job.term}.{job.submitted_at_s}",
                headers=traces.headers(),
                expect=self._reign.fence,
            )

    async def give(self, effect: Give) -> None:
        """Send an order.

        Raises:
            Deposed: the lease is lost.
        """
        order = effect.order
        kind = type(order).__name__.lower()
        with traces.span(f"scheduler.{kind}", parent=effect.trace, job=order.job, node=order.node):
            await self._append(
                ORDER(node=order.node),
                encode(order),
                f"{order.job}.{order.attempt}.{kind}.{order.node}.{order.term}",
                headers=traces.headers(),
            )

    async def answer(self, effect: Answer) -> None:
        """An answer that gets lost is asked for again by the client."""
        try:
            await self._context.bus.publish(effect.reply_to, encode(effect.reply))
        except GpuyardError as error:
            self._context.log.warning("answer not delivered", error=str(error))

    async def forget(self, effect: Forget) -> None:
        """A history that is not deleted now is found and deleted by the next leader."""
        bus = self._context.bus
        try:
            await bus.trim(STATE_STREAM, subject=JOB(job=effect.job))
            await bus.trim(FACTS_STREAM, subject=FACT.some(job=effect.job))
        except GpuyardError as error:
            self._context.log.warning("history not deleted", job=effect.job, error=str(error))

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
        context, tries = self._context, 0
        while not self._reign.lost.is_set():
            try:
                await context.bus.append(subject, payload, msg_id=msg_id, headers=headers, expect=expect)
            except Unavailable as error:
                tries += 1
                self.failing[subject] = error.message
                context.health.not_ready(f"a write to {subject} fails: {error}")
                context.log.warning("write is tried again", subject=subject, error=str(error))
                await context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter
            except Conflict as error:
                raise Deposed(f"the fence of term {self._reign.term} refused a write: {error}") from error
            else:
                self.failing.pop(subject, None)
                return
        raise Deposed(f"the lease of term {self._reign.term} is lost")
