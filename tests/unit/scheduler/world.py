"""A small world for the scheduler's core: nodes, executors that obey, and a checker of its promises."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec import structs

from gpuyard.contracts.fact import ExecutorInfo, GangFact, RankFact, RankState
from gpuyard.contracts.hardware import Gpu, Health, Host, Inventory, Link
from gpuyard.contracts.job import Exit, ExitCause, Job, JobSpec, JobState, TaskSpec
from gpuyard.contracts.order import Order, Prepare, Start, Stop
from gpuyard.contracts.request import Cancel, Reply, Submit
from gpuyard.topology.captured import captured_inventory
from gpuyard.topology.captures import load
from gpuyard_scheduler.core.events import (
    Answer,
    BeatSeen,
    Commit,
    Effect,
    ExecutorSeen,
    FactSeen,
    Forget,
    Give,
    InventorySeen,
    Requested,
    Ticked,
)
from gpuyard_scheduler.core.machine import Machine


def inventory(node: str, gpus: int, *, pairs: dict[tuple[int, int], float] | None = None) -> Inventory:
    """A node whose GPUs are linked at 10 GB/s unless `pairs` says otherwise."""
    links = tuple(
        Link(a, b, gb_s=(pairs or {}).get((a, b), 10.0)) for a in range(gpus) for b in range(a + 1, gpus)
    )
    cards = tuple(Gpu(f"GPU-{node}-{index}", index) for index in range(gpus))
    return Inventory(node, 0.0, Host(cpus=4), cards, links)


def captured(node: str, capture: str) -> Inventory:
    """A node with the hardware of a shipped capture."""
    seen = captured_inventory(load(capture))
    gpus = tuple(structs.replace(gpu, uuid=f"GPU-{node}-{gpu.index}") for gpu in seen.gpus)
    return structs.replace(seen, node=node, host=Host(cpus=4), gpus=gpus)


def spec(
    gpus: int = 1,
    *,
    ranks: int | None = None,
    name: str = "job",
    priority: int = 0,
    nodes: tuple[str, ...] = (),
) -> JobSpec:
    return JobSpec((TaskSpec(("true",), gpus=gpus, ranks=ranks),), name=name, priority=priority, nodes=nodes)


@dataclass
class World:
    """Drives a machine and keeps what a bus and executors would keep."""

    machine: Machine = field(default_factory=lambda: Machine(1))
    now_s: float = 1000.0
    term: int = 1
    jobs: dict[str, Job] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    facts: dict[tuple[str, str], GangFact] = field(default_factory=dict)
    inventories: dict[str, Inventory] = field(default_factory=dict)
    _requests: int = 0

    def add_node(
        self,
        node: str,
        hardware: int | str,
        *,
        pairs: dict[tuple[int, int], float] | None = None,
        rack: str = "",
    ) -> None:
        """A node with so many GPUs, or with those of a capture."""
        if isinstance(hardware, str):
            known = captured(node, hardware)
        else:
            known = inventory(node, hardware, pairs=pairs)
        self.inventories[node] = structs.replace(known, labels={"rack": rack} if rack else {})
        self.introduce(node)

    def set_health(self, node: str, health: Health, *gpus: int, reason: str = "") -> None:
        """The node's monitor says so of these GPUs."""
        known = self.inventories[node]
        self.inventories[node] = structs.replace(
            known,
            gpus=tuple(
                structs.replace(gpu, health=health, health_reason=reason) if gpu.index in gpus else gpu
                for gpu in known.gpus
            ),
        )
        self.feed(InventorySeen(self.inventories[node]))

    def introduce(self, node: str) -> None:
        self.feed(
            InventorySeen(self.inventories[node]),
            ExecutorSeen(ExecutorInfo(node, self.now_s, "memory", "127.0.0.1")),
            BeatSeen(node),
        )

    def feed(self, *events: object) -> list[Effect]:
        for event in events:
            self.machine.handle(event, self.now_s, self.now_s)  # type: ignore[arg-type]
        effects = self.machine.decide(self.now_s, self.now_s)
        self._carry_out(effects)
        return effects

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Commit(job):
                    before = self.jobs.get(job.id)
                    assert job.version == (before.version if before else 0) + 1, "versions count by one"
                    assert job.events, "each record says what happened"
                    self._check_health(job)
                    self.jobs[job.id] = job
                case Give(order, _):
                    assert order.job in self.jobs or isinstance(order, Stop), "an order before its record"
                    self.orders.append(order)
                case Answer(reply_to, reply):
                    self.replies[reply_to] = reply
                case Forget(job_id):
                    self.forgotten.append(job_id)

    def _check_health(self, job: Job) -> None:
        """What has just been placed is on GPUs that are well."""
        if job.placement and job.events[-1].kind == "placed":
            given = {gpu for slot in job.placement.slots for gpu in slot.gpus}
            known = [gpu for inventory in self.inventories.values() for gpu in inventory.gpus]
            assert all(gpu.health is Health.OK for gpu in known if gpu.uuid in given)

    def submit(self, wanted: JobSpec, request_id: str = "") -> Reply:
        self._requests += 1
        reply_to = f"_INBOX.{self._requests}"
        self.feed(Requested(Submit(request_id or f"r{self._requests}", wanted, reply_to)))
        return self.replies[reply_to]

    def cancel(self, job: str) -> Reply:
        self._requests += 1
        reply_to = f"_INBOX.{self._requests}"
        self.feed(Requested(Cancel(f"r{self._requests}", job, reply_to)))
        return self.replies[reply_to]

    def tick(self, seconds: float = 0.5, *, beat: bool = True) -> None:
        self.now_s += seconds
        self.feed(*(BeatSeen(node) for node in self.inventories if beat), Ticked())

    # -- executors -----------------------------------------------------------------------------------------

    def obey(self) -> None:
        """Let the executors carry out every order given so far."""
        orders, self.orders = self.orders, []
        for order in orders:
            match order:
                case Prepare():
                    self.prepare(order)
                case Start():
                    self.report(order.node, order.job, order.attempt, RankState.RUNNING)
                case Stop():
                    self.stop(order)

    def prepare(self, order: Prepare) -> None:
        known = self.facts.get((order.node, order.job))
        if known and known.attempt >= order.attempt:
            return
        state = RankState.RUNNING if order.start_when_ready else RankState.READY
        ranks = tuple(RankFact(slot.rank, state, slot.gpus) for slot in order.slots)
        port = 29000 if order.slots[0].rank == 0 else None
        self._publish(
            GangFact(order.node, order.job, order.attempt, order.term, self.now_s, ranks, "n", port)
        )

    def run_at_once(self, order: Prepare) -> None:
        """Ranks so quick that the first fact already says they have exited."""
        ranks = tuple(
            RankFact(slot.rank, RankState.EXITED, slot.gpus, self.now_s, self.now_s, Exit(0))
            for slot in order.slots
        )
        self._publish(
            GangFact(order.node, order.job, order.attempt, order.term, self.now_s, ranks, released=True)
        )

    def stop(self, order: Stop) -> None:
        known = self.facts.get((order.node, order.job))
        if known and known.attempt == order.attempt:
            self.report(order.node, order.job, order.attempt, RankState.EXITED, ExitCause.CANCELLED)
        else:
            self._publish(
                GangFact(order.node, order.job, order.attempt, order.term, self.now_s, released=True)
            )

    def report(
        self,
        node: str,
        job: str,
        attempt: int,
        state: RankState,
        cause: ExitCause | None = None,
        only_rank: int | None = None,
        code: int | None = 0,
    ) -> None:
        """Ranks of the job on that node are in this state now, unless they have exited."""
        fact = self.facts[node, job]
        ranks = tuple(
            rank
            if rank.state is RankState.EXITED or (only_rank is not None and rank.rank != only_rank)
            else RankFact(
                rank.rank,
                state,
                rank.gpus,
                ended_at_s=self.now_s,
                exit=Exit(code, cause) if state is RankState.EXITED else None,
            )
            for rank in fact.ranks
        )
        released = all(rank.state is RankState.EXITED for rank in ranks)
        self._publish(
            GangFact(node, job, attempt, fact.term, self.now_s, ranks, "n", fact.master_port, released)
        )

    def exit(self, job: str, *, only_rank: int | None = None, code: int = 0) -> None:
        """Ranks of a job end by themselves."""
        cause = ExitCause.USER_ERROR if code else None
        for (node, name), fact in list(self.facts.items()):
            if name == job and fact.attempt == self.jobs[job].attempt:
                self.report(node, job, fact.attempt, RankState.EXITED, cause, only_rank, code)

    def _publish(self, fact: GangFact) -> None:
        self.facts[fact.node, fact.job] = fact
        self.feed(FactSeen(fact))

    # -- a new leader --------------------------------------------------------------------------------------

    def take_over(self, unreadable: Iterable[str] = ()) -> None:
        """Another scheduler continues from what is stored."""
        self.term += 1
        self.machine = Machine(self.term)
        self.machine.load(self.jobs.values(), self.now_s, self.now_s, unreadable)
        self.orders.clear()
        for node in self.inventories:
            self.introduce(node)
        self.feed(*(FactSeen(fact) for fact in self.facts.values()))

    # -- promises ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What must hold after every step."""
        held: dict[str, str] = {}
        for job in self.jobs.values():
            if job.state.is_final:
                assert job.exit is not None
                assert job.ended_at_s is not None
                continue
            if job.state is JobState.QUEUED:
                assert job.reason is not None, f"{job.id} waits without a reason"
                assert job.placement is None
                continue
            assert job.placement is not None
            assert len(job.placement.slots) == job.spec.rank_count, "a partial gang"
            if job.state in (JobState.STARTING, JobState.RUNNING):
                for slot in job.placement.slots:
                    for gpu in slot.gpus:
                        assert gpu not in held, f"{gpu} is given to {held[gpu]} and {job.id}"
                        held[gpu] = job.id
        for (_, name), fact in self.facts.items():
            for rank in fact.ranks:
                for gpu in () if rank.state is RankState.EXITED else rank.gpus:
                    assert held.get(gpu, name) == name, f"{gpu} was given away while {name} uses it"
