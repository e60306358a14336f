"""The rules for numbers that jobs bring along: read from a job's record when its first line comes."""

from collections import OrderedDict
from collections.abc import Sequence

from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.job import Job
from gpuyard.contracts.subjects import JOB, STATE_STREAM
from gpuyard.runtime.service import Context
from gpuyard_logger.core.number_patterns import Rule, rules_of

_REMEMBERED_JOBS = 1024


class NumberRules:
    """What is known of the jobs that print now."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._rules: OrderedDict[str, Sequence[Rule]] = OrderedDict()

    async def learn(self, job: str) -> None:
        """Read the job's rules, unless they are known. Without a record there are none."""
        if job in self._rules:
            return
        try:
            record = await self._context.bus.last(STATE_STREAM, JOB(job=job))
            spec = None if record is None else decode(record.payload, Job).spec
            rules = rules_of(spec.metrics) if spec else ()
        except GpuyardError as error:
            self._context.log.warning("job's own rules for numbers not read", job=job, error=str(error))
            rules = ()
        self._rules[job] = rules
        if len(self._rules) > _REMEMBERED_JOBS:
            self._rules.popitem(last=False)

    def of(self, job: str) -> Sequence[Rule]:
        """The rules that were learnt; none if there are none."""
        return self._rules.get(job, ())
