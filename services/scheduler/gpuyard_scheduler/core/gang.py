"""What the facts of all its nodes say about a gang as a whole."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuyard.contracts.fact import GangFact, RankFact, RankState
from gpuyard.contracts.job import Exit, ExitCause, Job
from gpuyard_scheduler.core.names import some_of

_LAUNCHED = (RankState.READY, RankState.RUNNING, RankState.EXITED)


@dataclass(frozen=True)
class GangView:
    """The facts of one attempt, node by node; a node without a fact has not reported yet."""

    job: Job
    facts: Mapping[str, GangFact]

    @property
    def nodes(self) -> tuple[str, ...]:
        return self.job.placement.nodes if self.job.placement else ()

    def ranks(self) -> Iterator[tuple[str, RankFact]]:
        for node, fact in self.facts.items():
            for rank in fact.ranks:
                yield node, rank

    def _all(self, *states: RankState) -> bool:
        """Every rank of the gang is known to be in one of these states."""
        known = sum(rank.state in states for _, rank in self.ranks())
        return known == self.job.spec.rank_count

    @property
    def is_ready(self) -> bool:
        return self._all(*_LAUNCHED)

    @property
    def is_running(self) -> bool:
        return self._all(RankState.RUNNING, RankState.EXITED)

    @property
    def is_released(self) -> bool:
        """Nothing of the attempt is left on any node."""
        return all(node in self.facts and self.facts[node].released for node in self.nodes)

    @property
    def has_ended(self) -> bool:
        return self._all(RankState.EXITED) and self.is_released

    @property
    def started_at_s(self) -> float | None:
        return min((rank.started_at_s for _, rank in self.ranks() if rank.started_at_s), default=None)

    def first_failure(self) -> Exit | None:
        """How the rank that failed first ended, with its number and node."""
        failed = [
            (rank.ended_at_s or 0.0, rank.rank, node, rank.exit)
            for node, rank in self.ranks()
            if rank.exit and rank.exit.cause
        ]
        if not failed:
            return None
        _, number, node, exit_ = min(failed, key=lambda item: item[:2])
        return Exit(exit_.code, exit_.cause, exit_.message, number, node)

    def rendezvous(self) -> tuple[str, int] | None:
        """Address and port where peers find rank 0."""
        for fact in self.facts.values():
            if fact.master_port:
                return fact.master_addr, fact.master_port
        return None

    def missing(self) -> str:
        """Which nodes keep the gang from starting, for people."""
        late = [
            node
            for node in self.nodes
            if node not in self.facts or any(rank.state not in _LAUNCHED for rank in self.facts[node].ranks)
        ]
        return some_of(late) or "the start order"

    def refusal(self) -> Exit | None:
        """A node that has nothing of the attempt and says so, before it ran."""
        for node, fact in self.facts.items():
            if fact.released and not fact.ranks:
                return Exit(None, ExitCause.LAUNCH, "the node did not take the attempt", node=node)
        return None


def can_be_tried_again(exit_: Exit) -> bool:
    """A launch that failed without the program's fault: no exit code was ever produced."""
    return exit_.cause is ExitCause.LAUNCH and exit_.code is None
