"""The trace of each gang: one span from its prepare order to its release, carried on by facts and output."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from opentelemetry.trace import Span

from gpuyard.contracts.fact import GangFact, RankState
from gpuyard.telemetry import traces
from gpuyard_executor.core.rank import GangKey


@dataclass
class _Run:
    span: Span
    began_s: float
    is_launched: bool = False


class Runs:
    def __init__(self, node: str) -> None:
        self._node = node
        self._runs: dict[GangKey, _Run] = {}

    def begin(self, gang: GangKey, trace: str) -> None:
        if gang not in self._runs:
            span = traces.start(
                "executor.run", parent=trace, node=self._node, job=gang.job, attempt=gang.attempt
            )
            self._runs[gang] = _Run(span, time.monotonic())

    def headers(self, gang: GangKey) -> Mapping[str, str]:
        """Message headers that carry the gang's trace on."""
        run = self._runs.get(gang)
        return traces.headers_of(run.span) if run else {}

    def see(self, fact: GangFact) -> float | None:
        """Note what became of a gang; returns the seconds to its launch when that is news."""
        run = self._runs.get(GangKey(fact.job, fact.attempt))
        if run is None:
            return None
        if fact.released and run.span.is_recording():
            run.span.end()
        if run.is_launched or not any(rank.state is RankState.RUNNING for rank in fact.ranks):
            return None
        run.is_launched = True
        return time.monotonic() - run.began_s

    def forget(self, gang: GangKey) -> None:
        if run := self._runs.pop(gang, None):
            run.span.end()
