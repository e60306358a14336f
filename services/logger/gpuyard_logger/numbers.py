"""Finds numbers in new lines: with rules that are built in, and with those of the job.

One for all partitions of a logger, so that they share what may be spent on it.
"""

from collections import OrderedDict
from collections.abc import Sequence

from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.job import Job
from gpuyard.contracts.log import LogBatch, LogChunk
from gpuyard.contracts.subjects import JOB, STATE_STREAM
from gpuyard.runtime.service import Context
from gpuyard_logger.core.number_patterns import Rule, rules_of
from gpuyard_logger.core.numbers import Numbers

_REMEMBERED_JOBS = 1024


class NumberReader:
    """Learns a job's rules from its record when its first line comes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._numbers = Numbers()
        self._rules: OrderedDict[str, Sequence[Rule]] = OrderedDict()
        self._unread = context.metrics.counter(
            "gpuyard_logger_unread_lines_total",
            "Lines in which no numbers were looked for: too many at once.",
        )

    async def learn(self, job: str) -> None:
        """Read the job's rules, unless they are known. Without a record there are none."""
        if job in self._rules:
            return
        try:
            record = await self._context.bus.last(STATE_STREAM, JOB(job=job))
            rules = rules_of(decode(record.payload, Job).spec.metrics) if record else ()
        except GpuyardError as error:
            self._context.log.warning(
                "a job's own rules for numbers are not known", job=job, error=str(error)
            )
            rules = ()
        self._rules[job] = rules
        if len(self._rules) > _REMEMBERED_JOBS:
            self._rules.popitem(last=False)

    def rows(self, batch: LogBatch) -> Sequence[LogChunk]:
        """The rows of a batch that is new."""
        before = self._numbers.unread_lines
        rows = self._numbers.rows(batch, self._rules.get(batch.job, ()), self._context.clock.monotonic())
        self._unread.inc(self._numbers.unread_lines - before)
        return rows
