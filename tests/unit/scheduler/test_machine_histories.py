"""Any history at all: the scheduler's promises hold after every step, and every job comes to an end."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from gpuyard.contracts.errors import Failure
from gpuyard.contracts.hardware import Health
from gpuyard.contracts.job import JobState
from gpuyard.contracts.request import Accepted
from gpuyard_scheduler.core.events import LoadSeen
from tests.unit.scheduler.world import World, spec


class Histories(RuleBasedStateMachine):
    """Clients, executors, clocks and leaders do what they like, in any order."""

    accepted: Bundle[str] = Bundle("accepted")

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        for node, gpus in (("a", 4), ("b", 8), ("c", 0)):
            self.world.add_node(node, gpus)

    @rule(target=accepted, gpus=st.integers(0, 12), priority=st.integers(0, 2))
    def submit(self, gpus: int, priority: int) -> Any:
        reply = self.world.submit(spec(gpus, priority=priority))
        assert isinstance(reply, Accepted)
        return reply.job

    @rule(gpus=st.integers(13, 40))
    def submit_too_much(self, gpus: int) -> None:
        assert isinstance(self.world.submit(spec(gpus)), Failure)

    @rule(job=accepted)
    def cancel(self, job: str) -> None:
        self.world.cancel(job)

    @rule(count=st.integers(1, 3))
    def obey_some(self, count: int) -> None:
        orders, self.world.orders = self.world.orders, []
        later = orders[count:]
        self.world.orders = orders[:count]
        self.world.obey()
        self.world.orders = later + self.world.orders

    @rule()
    def obey(self) -> None:
        self.world.obey()

    @rule(job=accepted, rank=st.integers(0, 11), code=st.integers(0, 2))
    def exit_rank(self, job: str, rank: int, code: int) -> None:
        self.world.exit(job, only_rank=rank, code=code)

    @rule(job=accepted)
    def exit_all(self, job: str) -> None:
        self.world.exit(job)

    @rule(seconds=st.sampled_from([0.5, 4.0, 7.0, 130.0]), beat=st.booleans())
    def tick(self, seconds: float, beat: bool) -> None:
        self.world.tick(seconds, beat=beat)

    @rule(node=st.sampled_from("ab"), gpu=st.integers(0, 7), health=st.sampled_from(Health))
    def fall_ill_or_recover(self, node: str, gpu: int, health: Health) -> None:
        self.world.set_health(node, health, gpu)

    @rule(node=st.sampled_from("abc"), gpu=st.integers(0, 3), level=st.integers(0, 3))
    def measure(self, node: str, gpu: int, level: int) -> None:
        self.world.feed(LoadSeen(node, {f"GPU-{node}-{gpu}": level}))

    @rule()
    def take_over(self) -> None:
        self.world.take_over()

    @invariant()
    def promises_hold(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        """Left in peace and in health, every accepted job ends and every GPU is free again."""
        world = self.world
        for node in "ab":
            world.set_health(node, Health.OK, *range(8))
        for _ in range(4 * len(world.jobs) + 8):
            world.tick()
            world.obey()
            for job in list(world.jobs.values()):
                if not job.state.is_final:
                    world.exit(job.id)
        assert all(job.state.is_final for job in world.jobs.values()), [
            (job.id, job.state, job.reason) for job in world.jobs.values()
        ]
        assert not any(node.holders or node.cpu_ranks for node in world.machine.cluster.nodes.values())
        for job in world.jobs.values():
            assert job.state is not JobState.SUCCEEDED or (job.exit and job.exit.code == 0)


Histories.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestHistories = Histories.TestCase
