"""Everything around the core, in memory and deterministic: engine, journal, bus. Effects wait their turn.

It checks as it goes: no rank is prepared or started twice, no GPU serves two gangs.
"""

from collections import deque
from dataclasses import replace

from gpuyard.contracts.fact import GangFact, RankState
from gpuyard.contracts.order import Order
from gpuyard_executor.core.events import (
    Adopted,
    DropFact,
    Effect,
    Event,
    FactPublished,
    ForgetGang,
    MakeWorkdir,
    OrderReceived,
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
from gpuyard_executor.core.rank import GangKey, RankEnd, RankKey, RankPlan, RankStatus
from tests.unit.executor.orders import NODE

NOW_S = 1000.0


class World:
    def __init__(self) -> None:
        self.engine: dict[RankKey, RankStatus] = {}
        self.plans: dict[RankKey, RankPlan] = {}
        self.env: dict[RankKey, dict[str, str]] = {}
        self.journal: dict[tuple[str, int, type], Order] = {}
        self.bus: dict[str, GangFact] = {}
        self.published: list[GangFact] = []
        self.refused: list[RefuseOrder] = []
        self.stops: list[StopRank] = []
        self.shipped: list[RankKey] = []
        self.forgotten: list[GangKey] = []
        self.prepared: list[RankKey] = []
        self.started: list[RankKey] = []
        self.todo: deque[Effect] = deque()
        self.events: deque[Event] = deque()
        self.now_s = NOW_S
        self.core = self._new_core()

    def _new_core(self) -> Gangs:
        core = Gangs(NODE, "10.0.0.1", "/work", {"PATH": "/bin"})
        self.core = core
        self.feed(
            Adopted(tuple(self.journal.values()), tuple(self.engine.values()), tuple(self.bus.values()))
        )
        return core

    # -- what a test does ----------------------------------------------------------------------------------

    def order(self, order: Order) -> None:
        """Give an order and carry out all that follows from it."""
        self.feed(OrderReceived(order))
        self.settle()

    def feed(self, event: Event) -> None:
        """Tell the core; what it wants waits in `todo`. Orders are recorded at once, as the shell does."""
        for effect in self.core.handle(event, self.now_s):
            if isinstance(effect, RecordOrder):
                key = (effect.order.job, effect.order.attempt, type(effect.order))
                self.journal.setdefault(key, effect.order)
            else:
                self.todo.append(effect)

    def step(self) -> bool:
        """Carry out one effect, or tell one event; False if there is neither."""
        if self.todo:
            self._carry_out(self.todo.popleft())
        elif self.events:
            self.feed(self.events.popleft())
        else:
            return False
        return True

    def settle(self) -> None:
        while self.step():
            pass

    def restart(self) -> None:
        """The executor is killed with all that it had in mind, and started again."""
        self.todo.clear()
        self.events.clear()
        self._new_core()

    def exit(self, key: RankKey, code: int = 0) -> None:
        """A running rank ends by itself."""
        self._enter(key, RankState.EXITED, RankEnd(code, self.now_s))
        self.events.append(OutputShipped(key))
        self.settle()

    @property
    def fact(self) -> GangFact:
        return self.published[-1]

    def live(self) -> list[RankKey]:
        return [key for key, status in self.engine.items() if status.state is not RankState.EXITED]

    # -- what the world does -------------------------------------------------------------------------------

    def _enter(self, key: RankKey, state: RankState, end: RankEnd | None = None) -> None:
        status = self.engine[key]
        started_at_s = self.now_s if state is RankState.RUNNING else status.started_at_s
        self.engine[key] = replace(status, state=state, end=end, started_at_s=started_at_s)
        self.events.append(RankChanged(self.engine[key]))

    def _carry_out(self, effect: Effect) -> None:  # noqa: C901 - one line for each kind of effect
        match effect:
            case PrepareRank(plan):
                self._prepare(plan)
            case StartRank(key, env):
                self._start(key, dict(env))
            case StopRank(key, _):
                self.stops.append(effect)
                self._stop(key)
            case ReservePort(gang, port):
                self.events.append(PortReserved(gang, port or 20000 + len(self.bus)))
            case MakeWorkdir(gang, upload):
                self.events.append(WorkdirMade(gang, "no such upload" if upload == "missing" else ""))
            case ShipOutput(key):
                self.shipped.append(key)
                if effect.is_empty or self.engine[key].state is RankState.EXITED:
                    self.events.append(OutputShipped(key))
            case PublishFact(fact):
                self.bus[fact.job] = fact
                self.published.append(fact)
                self.events.append(FactPublished(fact))
            case ForgetGang(gang, ranks):
                self._forget(gang, ranks)
            case RefuseOrder():
                self.refused.append(effect)
            case DropFact(job):
                self.bus.pop(job, None)

    def _prepare(self, plan: RankPlan) -> None:
        assert plan.key not in self.engine, f"{plan.key} is prepared twice"
        for other in self.live():
            shared = set(self.plans[other].gpus) & set(plan.gpus)
            assert not shared or other.gang == plan.key.gang, f"{shared} given to {other} and {plan.key}"
        self.prepared.append(plan.key)
        self.plans[plan.key] = plan
        self.engine[plan.key] = RankStatus(plan.key, RankState.PREPARING)
        self._enter(plan.key, RankState.READY)

    def _start(self, key: RankKey, env: dict[str, str]) -> None:
        if self.engine[key].state is not RankState.READY:
            return
        assert key not in self.started, f"{key} is started twice"
        self.started.append(key)
        self.env[key] = env
        self._enter(key, RankState.RUNNING)

    def _stop(self, key: RankKey) -> None:
        status = self.engine.get(key)
        if status and status.state is not RankState.EXITED:
            code = 143 if status.started_at_s else None
            self._enter(key, RankState.EXITED, RankEnd(code, self.now_s, stopped=True))
            self.events.append(OutputShipped(key))

    def _forget(self, gang: GangKey, ranks: tuple[RankKey, ...]) -> None:
        self.forgotten.append(gang)
        self.journal = {key: order for key, order in self.journal.items() if key[:2] != tuple(gang)}
        for key in ranks:
            assert self.engine.pop(key).state is RankState.EXITED

    def feed_exit_without_shipping(self, key: RankKey) -> None:
        """A rank ends, and the executor learns of it before its output is on the bus."""
        self._enter(key, RankState.EXITED, RankEnd(0, self.now_s))
        self.settle()
