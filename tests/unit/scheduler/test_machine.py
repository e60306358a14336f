"""The life of jobs, told as histories."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.codec import MAX_MESSAGE_BYTES, encode
from gpuyard.contracts.errors import Failure, GpuyardError
from gpuyard.contracts.fact import GangFact, RankState
from gpuyard.contracts.hardware import Gpu, Host, Inventory, Link
from gpuyard.contracts.job import Exit, ExitCause, JobSpec, JobState, TaskSpec
from gpuyard.contracts.order import Prepare, Start, Stop
from gpuyard.contracts.request import Accepted
from gpuyard_scheduler.core import records
from gpuyard_scheduler.core.events import BeatSeen, FactSeen, Ticked
from tests.unit.scheduler.world import World, spec


@pytest.fixture
def world() -> World:
    world = World()
    world.add_node("a", 8)
    return world


def submitted(world: World, wanted: JobSpec) -> str:
    reply = world.submit(wanted)
    assert isinstance(reply, Accepted), reply
    return reply.job


def state(world: World, job: str) -> JobState:
    world.check()
    return world.jobs[job].state


def exit_of(world: World, job: str) -> Exit:
    exit_ = world.jobs[job].exit
    assert exit_ is not None
    return exit_


def reason_of(world: World, job: str) -> str:
    reason = world.jobs[job].reason
    assert reason is not None
    return reason.code


def test_a_gang_on_one_node_runs_and_succeeds(world: World) -> None:
    job = submitted(world, spec(2))
    assert state(world, job) is JobState.STARTING
    (order,) = world.orders
    assert isinstance(order, Prepare)
    assert order.start_when_ready
    assert [slot.local_rank for slot in order.slots] == [0, 1]
    world.obey()
    assert state(world, job) is JobState.RUNNING
    world.exit(job, only_rank=0)
    assert state(world, job) is JobState.RUNNING
    world.exit(job)
    assert state(world, job) is JobState.SUCCEEDED
    assert exit_of(world, job).code == 0
    assert not world.machine.cluster.nodes["a"].holders


def test_a_quick_job_needs_only_two_records(world: World) -> None:
    job = submitted(world, spec(1))
    (order,) = world.orders
    assert isinstance(order, Prepare)
    world.run_at_once(order)
    assert world.jobs[job].version == 2
    assert [event.kind for event in world.jobs[job].events] == ["running", "succeeded"]


def test_a_gang_over_two_nodes_starts_when_all_are_ready(world: World) -> None:
    world.add_node("b", 8)
    job = submitted(world, spec(12))
    assert [len(order.slots) for order in world.orders if isinstance(order, Prepare)] == [8, 4]
    first, second = world.orders
    world.orders = []
    assert isinstance(first, Prepare)
    assert isinstance(second, Prepare)
    world.prepare(first)
    assert not world.orders
    world.prepare(second)
    assert all(isinstance(order, Start) and order.master_port == 29000 for order in world.orders)
    assert [order.node for order in world.orders] == ["a", "b"]
    world.obey()
    assert state(world, job) is JobState.RUNNING


def test_a_failing_rank_ends_the_gang_and_is_named(world: World) -> None:
    job = submitted(world, spec(4))
    world.obey()
    world.exit(job, only_rank=2, code=3)
    assert state(world, job) is JobState.STOPPING
    (order,) = world.orders
    assert isinstance(order, Stop)
    world.obey()
    assert state(world, job) is JobState.FAILED
    exit_ = exit_of(world, job)
    assert (exit_.rank, exit_.code, exit_.cause) == (2, 3, ExitCause.USER_ERROR)


def test_two_gangs_on_six_gpus_run_one_after_the_other() -> None:
    world = World()
    world.add_node("a", 6)
    first, second = submitted(world, spec(4)), submitted(world, spec(4))
    assert state(world, second) is JobState.QUEUED
    assert reason_of(world, second) == "waiting_for_gpus"
    world.obey()
    world.exit(first)
    assert state(world, second) is JobState.STARTING
    world.obey()
    world.exit(second)
    assert state(world, second) is JobState.SUCCEEDED


def test_priority_goes_before_age(world: World) -> None:
    first = submitted(world, spec(8))
    low, high = submitted(world, spec(8)), submitted(world, spec(8, priority=5))
    world.obey()
    world.exit(first)
    assert state(world, high) is JobState.STARTING
    assert state(world, low) is JobState.QUEUED


def test_what_can_never_fit_is_refused_with_the_nearest_shape(world: World) -> None:
    reply = world.submit(spec(9))
    assert isinstance(reply, Failure)
    assert "at most 8 GPUs" in reply.hint
    reply = world.submit(spec(16, ranks=1))
    assert isinstance(reply, Failure)
    assert "largest node has 8" in reply.message


def test_a_job_waits_when_no_node_is_known() -> None:
    world = World()
    job = submitted(world, spec(2))
    assert reason_of(world, job) == "no_nodes"
    world.add_node("a", 2)
    assert state(world, job) is JobState.STARTING


def test_a_job_that_became_too_large_holds_up_nobody() -> None:
    world = World()
    large = submitted(world, spec(9))
    world.add_node("a", 8)
    small = submitted(world, spec(1))
    assert reason_of(world, large) == "too_large"
    assert state(world, small) is JobState.STARTING


@pytest.mark.parametrize("when", ["queued", "starting", "running", "stopping", "cancelled"])
def test_cancel_twice_in_every_state_ends_cancelled(world: World, when: str) -> None:
    blocker = submitted(world, spec(8)) if when == "queued" else ""
    job = submitted(world, spec(2))
    if when in ("running", "stopping"):
        world.obey()
    if when == "stopping":
        world.exit(job, only_rank=0, code=1)
    if when == "cancelled":
        world.cancel(job)
        world.obey()
    assert state(world, job) == when
    assert isinstance(world.cancel(job), Accepted)
    assert isinstance(world.cancel(job), Accepted)
    world.obey()
    assert state(world, job) is JobState.CANCELLED
    assert set(world.machine.cluster.nodes["a"].holders.values()) <= {blocker}


def test_cancelling_what_succeeded_is_a_conflict_and_the_unknown_not_found(world: World) -> None:
    job = submitted(world, spec(1))
    world.obey()
    world.exit(job)
    reply, unknown = world.cancel(job), world.cancel("nobody")
    assert isinstance(reply, Failure)
    assert isinstance(unknown, Failure)
    assert (reply.code, unknown.code) == ("conflict", "not_found")


def test_a_repeated_request_makes_no_second_job(world: World) -> None:
    first, again = world.submit(spec(1), "same"), world.submit(spec(1), "same")
    assert isinstance(first, Accepted)
    assert isinstance(again, Accepted)
    assert first.job == again.job
    assert len(world.jobs) == 1
    world.obey()
    world.exit(first.job)
    world.take_over()
    later = world.submit(spec(1), "same")
    assert isinstance(later, Accepted)
    assert (later.job, later.state) == (first.job, JobState.SUCCEEDED)


def test_a_late_launch_gives_all_members_back_and_is_tried_again(world: World) -> None:
    world.add_node("b", 8)
    job = submitted(world, spec(12))
    slow = world.orders.pop()
    world.obey()
    world.tick(121)
    assert state(world, job) is JobState.STOPPING
    assert "missing: b" in exit_of(world, job).message
    world.obey()
    assert state(world, job) is JobState.STARTING
    assert world.jobs[job].attempt == 2
    assert isinstance(slow, Prepare)


def test_launches_are_not_tried_for_ever(world: World) -> None:
    job = submitted(world, spec(1))
    for _ in range(3):
        world.orders = []
        world.tick(121)
        world.obey()
    assert state(world, job) is JobState.FAILED
    assert exit_of(world, job).cause is ExitCause.LAUNCH


def test_a_command_that_does_not_exist_fails_at_once(world: World) -> None:
    job = submitted(world, spec(1))
    world.obey()
    world.report("a", job, 1, RankState.EXITED, ExitCause.LAUNCH, code=127)
    assert state(world, job) is JobState.FAILED


def test_silence_means_unknown_running_work_stays_and_nothing_new_comes(world: World) -> None:
    running = submitted(world, spec(2))
    world.obey()
    world.tick(6, beat=False)
    waiting = submitted(world, spec(1))
    assert state(world, running) is JobState.RUNNING
    assert reason_of(world, waiting) == "no_nodes"
    world.tick()
    assert state(world, waiting) is JobState.STARTING


@pytest.mark.parametrize("when", ["queued", "starting", "running", "stopping"])
def test_a_new_leader_continues(world: World, when: str) -> None:
    blocker = submitted(world, spec(8)) if when == "queued" else ""
    job = submitted(world, spec(2))
    if when in ("running", "stopping"):
        world.obey()
    if when == "stopping":
        world.exit(job, only_rank=1, code=1)
    world.take_over()
    assert state(world, job) == when
    if blocker:
        world.obey()
        world.exit(blocker)
    world.obey()
    world.exit(job)
    assert state(world, job) is (JobState.FAILED if when == "stopping" else JobState.SUCCEEDED)
    assert world.jobs[job].attempt == 1


def test_what_runs_without_a_record_is_stopped_and_its_gpus_kept_until_then(world: World) -> None:
    job = submitted(world, spec(8))
    world.obey()
    del world.jobs[job]
    world.take_over()
    waiting = submitted(world, spec(8))
    assert state(world, waiting) is JobState.QUEUED
    world.obey()
    assert state(world, waiting) is JobState.STARTING


def test_ranks_without_gpus_are_limited_too_and_hold_up_nobody(world: World) -> None:
    reply = world.submit(spec(0, ranks=4000))
    assert isinstance(reply, Failure)
    assert "at most 16 of them" in reply.hint
    assert state(world, submitted(world, spec(1))) is JobState.STARTING


def test_shapes_that_do_not_fit_together_are_refused() -> None:
    world = World()
    world.add_node("a", 4)
    world.add_node("b", 4)
    wide, narrow = TaskSpec(("w",), name="w", gpus=6, ranks=2), TaskSpec(("n",), name="n", gpus=2, ranks=1)
    reply = world.submit(JobSpec((wide, narrow)))
    assert isinstance(reply, Failure)
    assert "don't fit together" in reply.message


def test_a_job_for_silent_nodes_holds_up_nobody_and_runs_when_they_are_back(world: World) -> None:
    world.add_node("b", 2)
    world.now_s += 6
    world.feed(BeatSeen("b"), Ticked())
    large, small = submitted(world, spec(8)), submitted(world, spec(1))
    assert reason_of(world, large) == "waiting_for_nodes"
    assert state(world, small) is JobState.STARTING
    world.feed(BeatSeen("a"))
    assert state(world, large) is JobState.STARTING


def test_a_head_whose_node_fell_silent_makes_way(world: World) -> None:
    world.add_node("b", 2)
    first, large = submitted(world, spec(8)), submitted(world, spec(8))
    world.obey()
    behind = submitted(world, spec(1))
    assert reason_of(world, behind) == "behind_others"
    world.now_s += 6
    world.feed(BeatSeen("b"), Ticked())
    assert state(world, behind) is JobState.STARTING
    assert reason_of(world, large) == "waiting_for_nodes"
    assert state(world, first) is JobState.RUNNING


def test_a_launch_that_failed_on_one_node_is_tried_on_another(world: World) -> None:
    world.add_node("b", 8)
    job = submitted(world, spec(2))
    (first,) = world.jobs[job].placement.nodes  # type: ignore[union-attr]
    world.orders.clear()
    world.tick(121)
    world.obey()
    assert world.jobs[job].attempt == 2
    assert world.jobs[job].placement.nodes != (first,)  # type: ignore[union-attr]


def test_a_node_that_does_not_take_an_attempt_costs_no_deadline(world: World) -> None:
    job = submitted(world, spec(2))
    world.orders.clear()
    world.feed(FactSeen(GangFact("a", job, 1, 1, world.now_s, released=True)))
    assert (world.jobs[job].state, world.jobs[job].attempt) == (JobState.STARTING, 2)


def test_one_request_id_for_two_jobs_is_a_conflict(world: World) -> None:
    world.submit(spec(1), "same")
    reply = world.submit(spec(2), "same")
    assert isinstance(reply, Failure)
    assert reply.code == "conflict"


def test_what_runs_of_an_unreadable_record_is_left_alone(world: World) -> None:
    job = submitted(world, spec(8))
    world.obey()
    del world.jobs[job]
    world.take_over(unreadable=[job])
    waiting = submitted(world, spec(8))
    assert not world.orders
    assert state(world, waiting) is JobState.QUEUED


def test_the_reason_of_the_first_is_brought_up_to_date(world: World) -> None:
    running = [submitted(world, spec(4)), submitted(world, spec(3))]
    waiting = submitted(world, spec(6))
    assert "1 are free" in world.jobs[waiting].reason.message  # type: ignore[union-attr]
    world.obey()
    world.exit(running[0])
    world.tick()
    assert "5 are free" in world.jobs[waiting].reason.message  # type: ignore[union-attr]


def test_a_clock_set_back_does_not_bring_the_dead_to_life(world: World) -> None:
    world.machine.handle(Ticked(), world.now_s - 600, world.now_s + 6)
    assert not world.machine.cluster.nodes["a"].usable


def test_histories_are_forgotten_by_size_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "KEEP_BYTES", 5000)
    for _ in range(4):
        job = submitted(world, spec(1))
        world.obey()
        world.exit(job)
    assert len(world.forgotten) in (1, 2)


@given(
    tasks=st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 8)), min_size=1, max_size=4),
    words=st.integers(1, 8),
)
@settings(max_examples=60)
def test_whatever_is_accepted_can_be_written_down(tasks: list[tuple[int, int]], words: int) -> None:
    name, command = "n" * 63, ("w" * 120_000,) * words
    shapes = tuple(
        TaskSpec(command, name=f"{index}{'t' * 62}", gpus=ranks * gpus, ranks=ranks)
        for index, (ranks, gpus) in enumerate(tasks)
    )
    try:
        wanted = JobSpec(shapes, name=name, owner="o" * 256)
        encode(wanted)
    except GpuyardError:
        return
    world = World()
    uuids = [f"{'u' * 120}{number}" for number in range(8)]
    for number in range(40):
        node = f"{number}{'x' * 60}"
        gpus = tuple(Gpu(f"{uuid}-{number}", index) for index, uuid in enumerate(uuids))
        links = tuple(Link(a, b, gb_s=1.0) for a in range(8) for b in range(a + 1, 8))
        world.inventories[node] = Inventory(node, 0.0, Host(cpus=256), gpus, links)
        world.introduce(node)
    if isinstance(world.submit(wanted), Accepted):
        for job in world.jobs.values():
            assert len(encode(job)) <= MAX_MESSAGE_BYTES
        for order in world.orders:
            assert len(encode(order)) <= MAX_MESSAGE_BYTES


def test_a_stray_that_is_seen_again_takes_no_further_room(world: World) -> None:
    job = submitted(world, spec(2))
    world.obey()
    fact = world.facts["a", job]
    del world.jobs[job]
    world.take_over()
    room = world.machine.cluster.nodes["a"].room_for_cpu_ranks()
    world.feed(FactSeen(fact), FactSeen(fact))
    assert world.machine.cluster.nodes["a"].room_for_cpu_ranks() == room == 16


def test_ended_jobs_are_forgotten_beyond_the_limit(world: World) -> None:
    world.machine.records._keep_ended = 2
    jobs = []
    for _ in range(4):
        jobs.append(submitted(world, spec(1)))
        world.obey()
        world.exit(jobs[-1])
    assert world.forgotten == jobs[:2]
