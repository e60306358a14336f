"""One attempt of a job on this node: what was ordered, where its ranks stand, what may happen next."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from gpuyard.contracts.fact import GangFact, RankFact, RankState
from gpuyard.contracts.job import ExitCause
from gpuyard.contracts.order import Prepare, Start, Stop
from gpuyard.contracts.placement import Slot
from gpuyard_executor.core.exits import exit_of
from gpuyard_executor.core.rank import GangKey, RankEnd, RankKey, RankStatus
from gpuyard_executor.core.states import EXITED, PREPARING, READY, step


@dataclass
class Rank:
    """One rank and what was asked of the engine for it."""

    slot: Slot
    status: RankStatus
    is_asked: bool = False
    """The engine was asked to prepare it: only the engine can say that it has exited."""
    is_started: bool = False
    is_told_to_stop: bool = False
    is_shipped: bool = False

    @property
    def key(self) -> RankKey:
        return self.status.key

    @property
    def state(self) -> RankState:
        return self.status.state

    @property
    def ended_unstarted(self) -> bool:
        return self.state is EXITED and self.status.started_at_s is None

    def enter(self, status: RankStatus) -> None:
        step(self.state, status.state)
        self.status = status

    def end(self, now_s: float, cause: ExitCause, message: str) -> None:
        self.enter(replace(self.status, state=EXITED, end=RankEnd(None, now_s, cause=cause, message=message)))


@dataclass
class Gang:
    """An attempt without ranks is one that was stopped before it came."""

    key: GangKey
    term: int
    order: Prepare | None = None
    start: Start | None = None
    stop: Stop | None = None
    ranks: dict[int, Rank] = field(default_factory=dict)
    port: int | None = None
    told: GangFact | None = None
    """The fact last given out for publishing."""
    is_told: bool = False
    """It is on the bus."""

    @classmethod
    def of(cls, order: Prepare) -> "Gang":
        key = GangKey(order.job, order.attempt)
        ranks = {
            slot.rank: Rank(slot, RankStatus(RankKey(*key, slot.rank), PREPARING)) for slot in order.slots
        }
        return cls(key, order.term, order, ranks=ranks)

    def __iter__(self) -> Iterator[Rank]:
        return iter(self.ranks.values())

    @property
    def gpus(self) -> Iterator[str]:
        return (gpu for rank in self for gpu in rank.slot.gpus)

    @property
    def has_rank_0(self) -> bool:
        return 0 in self.ranks

    @property
    def is_released(self) -> bool:
        """Nothing of it is left on the node."""
        return all(rank.state is EXITED for rank in self)

    @property
    def is_done(self) -> bool:
        """Nothing is left to do for it either."""
        return self.is_released and self.is_told and all(rank.is_shipped for rank in self)

    def master(self, address: str) -> tuple[str, int] | None:
        """Where rank 0 listens, once the gang may start; None before."""
        if self.start:
            return self.start.master_addr, self.start.master_port
        if self.order and self.order.start_when_ready and self.port:
            return address, self.port
        return None

    @property
    def may_start(self) -> bool:
        """All ranks here are ready, and none was lost on the way."""
        return not self.stop and not any(rank.state is PREPARING or rank.ended_unstarted for rank in self)

    @property
    def is_in_passing(self) -> bool:
        """Whether it stands where it stays for milliseconds only: that is not worth a fact."""
        states = {rank.state for rank in self}
        if self.stop or not self.order or EXITED in states:
            return False
        if PREPARING in states:
            return self.told is not None or not self.order.workdir
        starts = self.order.start_when_ready or any(rank.is_started for rank in self)
        return READY in states and starts

    def fact(self, node: str, address: str, now_s: float) -> GangFact:
        """What everybody may know."""
        return GangFact(
            node=node,
            job=self.key.job,
            attempt=self.key.attempt,
            term=self.term,
            at_s=now_s,
            ranks=tuple(self._rank_fact(rank) for rank in self),
            master_addr=address if self.port else "",
            master_port=self.port,
            released=self.is_released,
        )

    def _rank_fact(self, rank: Rank) -> RankFact:
        status, end = rank.status, rank.status.end
        return RankFact(
            rank=rank.slot.rank,
            state=status.state,
            gpus=rank.slot.gpus,
            started_at_s=status.started_at_s,
            ended_at_s=end.at_s if end else None,
            exit=exit_of(end, self.stop) if end else None,
        )
