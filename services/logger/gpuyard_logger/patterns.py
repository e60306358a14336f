"""Looks for the lines that rules name in everything that comes in, and tells the scheduler of them.

A line is told of before it counts as stored. So after a crash it is found again, and the scheduler knows by
the request's id that it has been told.
"""

import asyncio
import random
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec, Unavailable
from gpuyard.contracts.job import Job
from gpuyard.contracts.log import LogBatch
from gpuyard.contracts.log_rule import LogRule
from gpuyard.contracts.request import Finding
from gpuyard.contracts.subjects import JOB, REQUEST, STATE_STREAM
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard_logger.config import PoolLogRule
from gpuyard_logger.core.pattern_rules import joined
from gpuyard_logger.core.patterns import Found, Patterns

_REMEMBERED_JOBS = 1024
_AT_ONCE_BYTES = 524_288
"""Output of an attempt that is looked at together; less when it is about to be stored."""
_MOST_WAITING_BYTES = 4 << 20
_SETTLE_S = 10.0
"""Lines are stored without their findings being told if the scheduler's queue takes none for so long."""


@dataclass
class _Attempt:
    """What of an attempt waits to be looked at, and the names of the rules whose line was found."""

    waiting: list[LogBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    met: set[str] = field(default_factory=set)


@dataclass
class _Job:
    """What is looked for in a job's output."""

    patterns: Patterns
    attempts: defaultdict[int, _Attempt] = field(default_factory=lambda: defaultdict(_Attempt))


class PatternWatch:
    """One for all partitions of a logger.

    Args:
        rules: The logger's own, for jobs with certain labels.

    """

    def __init__(self, context: Context, rules: Iterable[PoolLogRule]) -> None:
        self._context = context
        self._rules = tuple(rules)
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self._waiting: set[tuple[str, int]] = set()
        self._waiting_bytes = 0
        self._sending: set[asyncio.Task[None]] = set()
        self._findings = context.metrics.counter(
            "gpuyard_logger_findings_total", "Lines found that a log rule looks for."
        )

    async def learn(self, job: str) -> None:
        """Read which rules a job has, unless they are known.

        Raises:
            Unavailable: the bus does not answer.

        """
        if job in self._jobs:
            return
        record = await self._context.bus.last(STATE_STREAM, JOB(job=job))
        self._jobs[job] = _Job(Patterns(*joined(*self._layers(record))))
        if len(self._jobs) > _REMEMBERED_JOBS:
            self._look_at_all()
            self._jobs.popitem(last=False)

    def take(self, batch: LogBatch) -> None:
        """Take lines that are new, of a job that was learnt."""
        job = self._jobs.get(batch.job)
        if job is None or not batch.chunks:
            return
        attempt = job.attempts[batch.attempt]
        size_bytes = sum(len(chunk.data) for chunk in batch.chunks)
        attempt.waiting.append(batch)
        attempt.waiting_bytes += size_bytes
        self._waiting.add((batch.job, batch.attempt))
        self._waiting_bytes += size_bytes
        if attempt.waiting_bytes >= _AT_ONCE_BYTES:
            self._look_at(batch.job, batch.attempt)
        elif self._waiting_bytes >= _MOST_WAITING_BYTES:
            self._look_at_all()

    async def settle(self) -> None:
        """Look at everything that was taken, and wait until everything found is told; not for ever."""
        self._look_at_all()
        if self._sending:
            await asyncio.wait(self._sending, timeout=_SETTLE_S)

    def _look_at_all(self) -> None:
        for job, attempt in tuple(self._waiting):
            self._look_at(job, attempt)

    def _look_at(self, name: str, number: int) -> None:
        job = self._jobs[name]
        attempt = job.attempts[number]
        for found in job.patterns.find(attempt.waiting, attempt.met):
            attempt.met.add(found.rule.name)
            self._findings.inc()
            self._send(_finding(name, number, found))
        self._waiting.discard((name, number))
        self._waiting_bytes -= attempt.waiting_bytes
        attempt.waiting.clear()
        attempt.waiting_bytes = 0

    def _layers(self, record: Message | None) -> Iterable[Iterable[LogRule]]:
        """The logger's rules for such a job, and its own."""
        try:
            spec = decode(record.payload, Job).spec if record else None
        except InvalidSpec as error:
            self._context.log.warning("a job's own log rules are not known", error=str(error))
            spec = None
        labels = spec.labels.items() if spec else set[tuple[str, str]]()
        yield (rule for rule in self._rules if rule.labels.items() <= labels)
        yield spec.log_rules if spec else ()

    def _send(self, finding: Finding) -> None:
        task = asyncio.create_task(self._insist(finding))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _insist(self, finding: Finding) -> None:
        subject, tries = REQUEST(kind="finding"), 0
        while True:
            try:
                await self._context.bus.append(subject, encode(finding), msg_id=finding.request_id)
            except Unavailable as error:
                tries += 1
                self._context.log.warning("finding is told again", job=finding.job, error=str(error))
                await self._context.clock.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter
            except GpuyardError as error:
                self._context.log.error("finding can't be told", job=finding.job, error=str(error))
                return
            else:
                return


def _finding(job: str, attempt: int, found: Found) -> Finding:
    rule = found.rule
    key = f"{job}.{attempt}.{rule.name}"
    return Finding(
        f"finding-{blake2b(key.encode(), digest_size=16).hexdigest()}",
        job,
        attempt,
        found.rank,
        rule.name,
        rule.action,
        rule.message or f"log rule {rule.name}",
        found.line,
        found.at_s,
    )
