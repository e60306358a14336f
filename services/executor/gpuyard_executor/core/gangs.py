"""All attempts on one node: orders, changes and receipts in, effects out.

Level-triggered: after every event `_advance` compares what is ordered with what is, and asks for the
difference. So neither the order of events nor their repetition matters. A gang's failure is not judged here:
a rank that fails does not stop the others; that is the scheduler's to decide.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from gpuyard.contracts.fact import GangFact
from gpuyard.contracts.job import ExitCause
from gpuyard.contracts.order import Order, Prepare, Start, Stop
from gpuyard_executor.core.adoption import newest_term, rebuild
from gpuyard_executor.core.container import host_name
from gpuyard_executor.core.environment import rank_environment, rank_secrets, visible_gpus
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
from gpuyard_executor.core.gang import Gang
from gpuyard_executor.core.rank import Box, GangKey, RankPlan
from gpuyard_executor.core.states import EXITED, PREPARING, READY

_REMEMBERED = 10_000
"""Jobs whose late orders are still refused: a number for each."""
_KEPT_FACTS = 1_000
"""Jobs whose last fact stays on the bus: FACTS has room for a thousand nodes."""
_SKEW_S = 300.0
"""How far the clock of the scheduler's machine may be behind: only what is later than that is too late."""


class Gangs:
    """The node's state. `handle` is its only way in; it returns what to do, in this order."""

    def __init__(
        self, node: str, address: str, workdirs: str, base_env: Mapping[str, str], *, is_boxed: bool = False
    ) -> None:
        self._node = node
        self._address = address
        self._workdirs = workdirs
        self._base_env = base_env
        self._is_boxed = is_boxed
        """Whether ranks run in containers, where those of a gang know each other by name."""
        self._term = 0
        self._gangs: dict[GangKey, Gang] = {}
        self._holders: dict[str, GangKey] = {}
        self._over: OrderedDict[str, int] = OrderedDict()
        """Newest attempt of each job that is forgotten: late orders for it change nothing."""
        self._kept: OrderedDict[str, GangFact] = OrderedDict()
        """Facts of attempts that are over and still on the bus, the oldest first."""
        self._effects: list[Effect] = []

    def handle(self, event: Event, now_s: float) -> Sequence[Effect]:
        match event:
            case Adopted():
                self._adopt(event, now_s)
            case OrderReceived(order, trace):
                self._obey(order, trace, now_s)
            case RankChanged(status):
                self._see(status.key.gang, event, now_s)
            case PortReserved(key, _) | WorkdirMade(key, _):
                self._see(key, event, now_s)
            case FactPublished(fact):
                self._see(GangKey(fact.job, fact.attempt), event, now_s)
            case OutputShipped(key):
                self._see(key.gang, event, now_s)
        effects, self._effects = self._effects, []
        return effects

    def states(self) -> Mapping[str, int]:
        """How many ranks are in each state."""
        counts = dict.fromkeys(("preparing", "ready", "running", "exited"), 0)
        for gang in self._gangs.values():
            for rank in gang:
                counts[rank.state] += 1
        return counts

    # -- orders --------------------------------------------------------------------------------------------

    def _obey(self, order: Order, trace: str, now_s: float) -> None:
        key = GangKey(order.job, order.attempt)
        if why := self._refusal(order, key):
            self._effects.append(RefuseOrder(order, why))
            self._answer_late(order, key, now_s)
            return
        self._term = order.term
        gang = self._gangs.get(key)
        if gang and gang.order and isinstance(order, Prepare):
            order = replace(gang.order, term=order.term)  # what came first counts
        self._effects.append(RecordOrder(order, trace))
        if gang is None:
            gang = self._gangs[key] = Gang.of(order) if isinstance(order, Prepare) else Gang(key, order.term)
            if gang.order:
                self._begin(gang, now_s)
        gang.term = order.term
        if isinstance(order, Start):
            gang.start = gang.start or order
        elif isinstance(order, Stop):
            self._stop(gang, order, now_s)
        self._advance(gang, now_s)

    def _refusal(self, order: Order, key: GangKey) -> str:
        """Why an order is not obeyed; empty if it is."""
        known = self._gangs.get(key)
        if order.term < self._term:
            return f"term {order.term} is over, {self._term} reigns"
        if known is None:
            return self._refusal_of_new(order, key)
        if isinstance(order, Prepare) and not known.order:
            return "it was stopped before it came"
        return ""

    def _refusal_of_new(self, order: Order, key: GangKey) -> str:
        newest = max((gang.attempt for gang in self._gangs if gang.job == key.job), default=0)
        if key.attempt <= self._over.get(key.job, 0):
            return f"attempt {key.attempt} is over"
        if key.attempt < newest:
            return f"attempt {newest} is newer"
        return "it was never prepared here" if isinstance(order, Start) else ""

    def _answer_late(self, order: Order, key: GangKey, now_s: float) -> None:
        """Who orders what is over missed its fact, and would wait for it for ever: tell it again."""
        if order.term < self._term or isinstance(order, Start) or self._over.get(key.job) != key.attempt:
            return
        if not self._has_gang_of(key.job):
            fact = self._kept.get(key.job)
            if fact is None or fact.attempt != key.attempt:
                fact = GangFact(self._node, *key, term=order.term, at_s=now_s, released=True)
            self._effects.append(PublishFact(fact))
            self._keep(fact)

    def _begin(self, gang: Gang, now_s: float) -> None:
        """Get the ranks ready that no engine knows yet, or say why that can't be."""
        assert gang.order
        if why := self._obstacle(gang.order, now_s):
            self._end_unprepared(gang, ExitCause.LAUNCH, why, now_s)
            return
        self._claim(gang)
        self._effects.append(MakeWorkdir(gang.key, gang.order.workdir))

    def _claim(self, gang: Gang) -> None:
        self._holders |= dict.fromkeys(gang.gpus, gang.key)
        if gang.has_rank_0:
            self._effects.append(ReservePort(gang.key, gang.port))

    def _obstacle(self, order: Prepare, now_s: float) -> str:
        """Why these ranks can't be run; empty if they can."""
        key = GangKey(order.job, order.attempt)
        tasks = {task.name for task in order.tasks}
        gpus = [gpu for slot in order.slots for gpu in slot.gpus]
        if order.expires_at_s is not None and now_s > order.expires_at_s + _SKEW_S:
            return f"the order came {now_s - order.expires_at_s:.1f} s after it had expired"
        for gpu in gpus:
            if self._holders.get(gpu, key) != key:
                return f"GPU {gpu} is held by {self._holders[gpu]}"
        if len(set(gpus)) < len(gpus) or len({slot.rank for slot in order.slots}) < len(order.slots):
            return "the order names a GPU or a rank twice"
        for slot in order.slots:
            if slot.task not in tasks or slot.node != self._node:
                return f"the order for {self._node} names task {slot.task} on {slot.node}"
        for other in self._gangs.values():
            if other.key.job == key.job and other.key != key and not other.is_released:
                return f"attempt {other.key.attempt} of the job is still here"
        return ""

    def _stop(self, gang: Gang, order: Stop, now_s: float) -> None:
        """Every order is passed on: a later one may allow less grace."""
        grace_s = min(gang.stop.grace_s, order.grace_s) if gang.stop else order.grace_s
        gang.stop = replace(gang.stop or order, grace_s=grace_s)
        for rank in gang:
            if rank.is_told_to_stop and rank.state is not EXITED:
                self._effects.append(StopRank(rank.key, order.grace_s))
        self._end_unprepared(gang, order.cause, f"it was told to stop: {order.cause}", now_s)

    # -- changes -------------------------------------------------------------------------------------------

    def _see(self, key: GangKey, event: Event, now_s: float) -> None:
        gang = self._gangs.get(key)
        if gang is None:
            self._see_stray(event)
            return
        match event:
            case RankChanged(status) if status.key.rank in gang.ranks:
                gang.ranks[status.key.rank].enter(status)
            case PortReserved(_, port):
                gang.port = port
                if port is None:
                    self._end_unprepared(gang, ExitCause.LAUNCH, "no port is free for rank 0", now_s)
            case WorkdirMade(_, failure) if failure:
                self._end_unprepared(gang, ExitCause.LAUNCH, failure, now_s)
            case WorkdirMade():
                self._ask_engine(gang)
            case FactPublished(fact):
                gang.is_told = fact == gang.told
            case OutputShipped(rank_key):
                gang.ranks[rank_key.rank].is_shipped = True
        self._advance(gang, now_s)

    def _see_stray(self, event: Event) -> None:
        """A rank that nobody ordered: its record was lost. It was told to stop when it was found."""
        if isinstance(event, RankChanged) and event.status.state is EXITED:
            self._effects.append(ForgetGang(event.status.key.gang, (event.status.key,)))

    def _ask_engine(self, gang: Gang) -> None:
        assert gang.order
        tasks = {task.name: task for task in gang.order.tasks}
        for rank in gang:
            if rank.is_asked or rank.state is EXITED:
                continue
            rank.is_asked = True
            task = tasks[rank.slot.task]
            plan = RankPlan(
                rank.key,
                task.command,
                f"{self._workdirs}/{gang.key}",
                visible_gpus(gang.order.slots, rank.slot),
                gang.order.grace_s,
                Box(task.image, task.memory_bytes, task.cpus, task.shm_bytes),
                peers=len(gang.order.slots),
                is_spread=gang.order.world_size > len(gang.order.slots),
            )
            secrets = rank_secrets(self._base_env, gang.order, rank.slot)
            self._effects += (PrepareRank(plan), ShipOutput(rank.key, secrets=secrets))

    def _end_unprepared(self, gang: Gang, cause: ExitCause, message: str, now_s: float) -> None:
        """End the ranks that no engine knows. Whoever follows their output learns that there is none."""
        for rank in gang:
            if not rank.is_asked and rank.state is not EXITED:
                rank.end(now_s, cause, message)
                self._effects.append(ShipOutput(rank.key, is_empty=True))

    # -- what follows --------------------------------------------------------------------------------------

    def _advance(self, gang: Gang, now_s: float) -> None:
        master = gang.master(host_name(0) if self._is_boxed else self._address)
        if gang.stop:
            self._stop_ranks(gang, gang.stop)
        elif master and gang.may_start:
            self._start_ranks(gang, *master)
        if gang.is_released:
            self._release(gang)
        self._tell(gang, now_s)
        if gang.is_done:
            self._forget(gang)
            for newer in [other for other in self._gangs.values() if other.key.job == gang.key.job]:
                self._advance(newer, now_s)

    def _stop_ranks(self, gang: Gang, order: Stop) -> None:
        for rank in gang:
            if rank.is_asked and not rank.is_told_to_stop and rank.state is not EXITED:
                rank.is_told_to_stop = True
                self._effects.append(StopRank(rank.key, order.grace_s))

    def _start_ranks(self, gang: Gang, master_addr: str, master_port: int) -> None:
        assert gang.order
        for rank in gang:
            if rank.state is READY and not rank.is_started:
                rank.is_started = True
                env = rank_environment(self._base_env, gang.order, rank.slot, master_addr, master_port)
                self._effects.append(StartRank(rank.key, env))

    def _release(self, gang: Gang) -> None:
        for gpu in gang.gpus:
            if self._holders.get(gpu) == gang.key:
                del self._holders[gpu]

    def _tell(self, gang: Gang, now_s: float) -> None:
        """Facts of a job go out in the order of its attempts: the bus keeps only the newest of them."""
        if gang.is_in_passing or self._has_older(gang):
            return
        fact = gang.fact(self._node, self._address, now_s)
        if gang.told and replace(fact, at_s=gang.told.at_s) == gang.told:
            return
        gang.told = fact
        gang.is_told = False
        self._effects.append(PublishFact(fact))

    def _has_older(self, gang: Gang) -> bool:
        job, attempt = gang.key
        return any(other.job == job and other.attempt < attempt for other in self._gangs)

    def _forget(self, gang: Gang) -> None:
        del self._gangs[gang.key]
        self._close(gang.key)
        if gang.told:
            self._keep(gang.told)
        asked = tuple(rank.key for rank in gang if rank.is_asked)
        self._effects.append(ForgetGang(gang.key, asked))

    def _close(self, key: GangKey) -> None:
        self._over[key.job] = max(key.attempt, self._over.pop(key.job, 0))  # the newest at the end
        if len(self._over) > _REMEMBERED:
            self._over.popitem(last=False)

    def _keep(self, fact: GangFact) -> None:
        self._kept.pop(fact.job, None)
        self._kept[fact.job] = fact
        if len(self._kept) > _KEPT_FACTS:
            job, _ = self._kept.popitem(last=False)
            if not self._has_gang_of(job):  # else the bus has the fact of a later attempt, which is here
                self._effects.append(DropFact(job))

    def _has_gang_of(self, job: str) -> bool:
        return any(key.job == job for key in self._gangs)

    # -- the start of the executor -------------------------------------------------------------------------

    def _adopt(self, found: Adopted, now_s: float) -> None:
        self._term = newest_term(found)
        self._gangs = rebuild(found, now_s)
        for fact in found.facts:
            if fact.released:
                self._close(GangKey(fact.job, fact.attempt))
                self._keep(fact)
        for status in found.statuses:
            if status.key.gang not in self._gangs:
                self._effects.append(StopRank(status.key, 0.0))
                self._see_stray(RankChanged(status))
        for gang in [gang for gang in self._gangs.values() if not self._resume(gang)]:
            self._begin_late(gang, now_s)
        for gang in list(self._gangs.values()):
            self._advance(gang, now_s)

    def _begin_late(self, gang: Gang, now_s: float) -> None:
        """Its order was recorded, and no more came of it."""
        if gang.stop:
            self._end_unprepared(gang, gang.stop.cause, f"it was told to stop: {gang.stop.cause}", now_s)
        else:
            self._begin(gang, now_s)

    def _resume(self, gang: Gang) -> bool:
        """Go on with the ranks that began; tell whether there is no other."""
        for rank in gang:
            if rank.is_asked or rank.state is EXITED:
                secrets = rank_secrets(self._base_env, gang.order, rank.slot)
                self._effects.append(
                    ShipOutput(rank.key, not rank.is_asked, is_resumed=True, secrets=secrets)
                )
        if not gang.is_released and any(rank.is_asked for rank in gang):
            self._claim(gang)
        return not any(rank.state is PREPARING and not rank.is_asked for rank in gang)
