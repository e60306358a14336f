"""The rules, one by one."""

import pytest

from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause, TaskSpec
from gpuyard_executor.core.events import OrderReceived, OutputShipped, StopRank
from gpuyard_executor.core.rank import GangKey, RankKey
from gpuyard_executor.core.states import UnknownTransition, step
from tests.unit.executor.orders import prepare, slot, start, stop
from tests.unit.executor.world import NOW_S, World

RUNNING, READY, EXITED = RankState.RUNNING, RankState.READY, RankState.EXITED


@pytest.fixture
def world() -> World:
    return World()


def states(world: World) -> list[RankState]:
    return [rank.state for rank in world.fact.ranks]


def test_a_gang_on_one_node_starts_by_itself_and_is_told_once(world: World) -> None:
    world.order(prepare(gpus=("A", "B")))
    assert world.started == [RankKey("j1", 1, 0), RankKey("j1", 1, 1)]
    assert [states(world), len(world.published)] == [[RUNNING, RUNNING], 1]
    assert [rank.gpus for rank in world.fact.ranks] == [("A",), ("B",)]
    assert (world.fact.master_addr, world.fact.master_port) == ("10.0.0.1", 20000)


def test_a_gang_on_several_nodes_waits_for_the_start(world: World) -> None:
    world.order(prepare(gpus=("A",), start_when_ready=False, world_size=2))
    assert (states(world), world.started) == ([READY], [])
    world.order(start())
    assert states(world) == [RUNNING]
    assert world.env[RankKey("j1", 1, 0)]["MASTER_ADDR"] == "10.0.0.9"
    assert world.env[RankKey("j1", 1, 0)]["MASTER_PORT"] == "4242"


def test_only_the_node_of_rank_0_reserves_a_port(world: World) -> None:
    world.order(prepare(slots=(slot(3, local_rank=0),), world_size=4, start_when_ready=False))
    assert (world.fact.master_addr, world.fact.master_port) == ("", None)


def test_everything_is_forgotten_once_it_is_told_and_shipped(world: World) -> None:
    world.order(prepare())
    world.exit(RankKey("j1", 1, 0), 0)
    assert world.fact.released
    assert (world.forgotten, world.engine, world.journal) == ([GangKey("j1", 1)], {}, {})


def test_a_rank_that_fails_does_not_stop_the_others(world: World) -> None:
    world.order(prepare(gpus=("A", "B")))
    world.exit(RankKey("j1", 1, 1), 7)
    failed = world.fact.ranks[1].exit
    assert failed
    assert (states(world), failed.code, failed.cause) == ([RUNNING, EXITED], 7, ExitCause.USER_ERROR)
    assert (world.stops, world.fact.released) == ([], False)


def test_orders_may_be_repeated(world: World) -> None:
    for _ in range(3):
        world.order(prepare())
    assert (world.prepared, len(world.published)) == ([RankKey("j1", 1, 0)], 1)
    world.order(stop())
    for _ in range(2):
        world.order(stop())
    exited = world.fact.ranks[0].exit
    assert exited
    assert (exited.cause, world.fact.released, len(world.stops)) == (ExitCause.CANCELLED, True, 1)


def test_an_order_of_an_older_term_is_refused(world: World) -> None:
    world.order(prepare(term=5))
    world.order(stop(term=4))
    assert (states(world), len(world.refused)) == ([RUNNING], 1)
    world.order(stop(term=6))
    assert (world.fact.released, world.fact.term) == (True, 6)


def test_the_newest_term_is_remembered_over_a_restart(world: World) -> None:
    world.order(prepare(term=5))
    world.exit(RankKey("j1", 1, 0))
    world.restart()
    world.order(prepare("j2", term=4))
    assert "term 4 is over" in world.refused[0].why


def test_a_held_gpu_is_not_given_again(world: World) -> None:
    world.order(prepare("j1", gpus=("A", "B")))
    world.order(prepare("j2", gpus=("B", "C")))
    assert world.fact.job == "j2"
    assert world.fact.released
    for rank in world.fact.ranks:
        assert rank.exit
        assert (rank.exit.cause, rank.exit.code) == (ExitCause.LAUNCH, None)
        assert rank.exit.message == "GPU B is held by j1.1"
    assert {key.job for key in world.prepared} == {"j1"}
    assert world.shipped[-2:] == [RankKey("j2", 1, 0), RankKey("j2", 1, 1)], "followers learn of the end"


def test_a_gpu_is_free_once_its_whole_gang_is_gone(world: World) -> None:
    world.order(prepare("j1", gpus=("A", "B")))
    world.exit(RankKey("j1", 1, 0))
    world.order(prepare("j2", gpus=("A",)))
    assert world.fact.released
    world.exit(RankKey("j1", 1, 1))
    world.order(prepare("j2", 2, gpus=("A",)))
    assert states(world) == [RUNNING]


def test_a_stop_that_comes_first_wins(world: World) -> None:
    world.order(stop())
    assert (world.fact.ranks, world.fact.released, world.fact.attempt) == ((), True, 1)
    world.order(prepare())
    assert (world.prepared, len(world.refused)) == ([], 1)
    world.order(prepare(attempt=2))
    assert world.prepared == [RankKey("j1", 2, 0)]


def test_a_late_stop_changes_nothing(world: World) -> None:
    world.order(prepare())
    world.exit(RankKey("j1", 1, 0), 3)
    told = world.bus["j1"]
    world.order(stop())
    assert world.bus["j1"] == told


def test_a_stop_while_ranks_get_ready(world: World) -> None:
    world.feed(OrderReceived(prepare(gpus=("A", "B"))))
    world.feed(OrderReceived(stop()))
    world.settle()
    assert (world.started, world.fact.released) == ([], True)


def test_a_second_stop_may_shorten_the_grace(world: World) -> None:
    world.order(prepare())
    effects = [
        effect
        for order in (stop(grace_s=60.0), stop(grace_s=1.0))
        for effect in world.core.handle(OrderReceived(order), NOW_S)
    ]
    graces = [effect.grace_s for effect in effects if isinstance(effect, StopRank)]
    assert graces == [60.0, 1.0]


def test_an_expired_order_is_not_begun(world: World) -> None:
    world.order(prepare(expires_at_s=NOW_S - 302.0))
    exited = world.fact.ranks[0].exit
    assert exited
    assert (world.prepared, exited.cause, world.fact.released) == ([], ExitCause.LAUNCH, True)
    assert "302.0 s after it had expired" in exited.message


def test_a_clock_that_is_ahead_refuses_no_launch(world: World) -> None:
    world.order(prepare(expires_at_s=NOW_S - 299.0))
    assert states(world) == [RUNNING]


def test_a_missing_upload_ends_the_launch(world: World) -> None:
    world.order(prepare(workdir="missing"))
    exited = world.fact.ranks[0].exit
    assert exited
    assert (world.prepared, exited.cause, exited.message) == ([], ExitCause.LAUNCH, "no such upload")


def test_an_upload_takes_time_and_so_is_told(world: World) -> None:
    world.order(prepare(workdir="there"))
    assert [fact.ranks[0].state for fact in world.published] == [RankState.PREPARING, RUNNING]


def test_an_order_that_contradicts_itself_is_not_begun(world: World) -> None:
    for job, order in {
        "a": prepare("a", slots=(slot(0, "A"), slot(1, "A"))),
        "b": prepare("b", slots=(slot(0, "A"), slot(0, "B"))),
        "c": prepare("c", slots=(slot(0, task="other"),)),
        "d": prepare("d", slots=(slot(0, node="elsewhere"),)),
    }.items():
        world.order(order)
        assert (world.fact.job, world.fact.released, world.prepared) == (job, True, [])


def test_the_next_attempt_waits_for_the_end_of_the_one_before(world: World) -> None:
    world.order(prepare())
    world.order(prepare(attempt=2))
    assert [fact.attempt for fact in world.published] == [1], "facts go out in the order of attempts"
    world.order(stop(attempt=1))
    exited = world.fact.ranks[0].exit
    assert exited
    assert (world.fact.attempt, exited.message) == (2, "attempt 1 of the job is still here")
    assert (world.prepared, world.journal) == ([RankKey("j1", 1, 0)], {})


def test_an_older_attempt_is_refused(world: World) -> None:
    world.order(prepare(attempt=3))
    for order in (prepare(attempt=2), stop(attempt=2), start(attempt=2)):
        world.order(order)
    assert [refused.why for refused in world.refused] == ["attempt 3 is newer"] * 3
    world.order(start("j9"))
    assert world.refused[-1].why == "it was never prepared here"


def test_each_rank_gets_its_tasks_command(world: World) -> None:
    tasks = (TaskSpec(("train", "--fast"), name="main"), TaskSpec(("judge",), name="evaluator"))
    world.order(prepare(slots=(slot(0), slot(1, task="evaluator")), tasks=tasks, grace_s=3.0))
    plans = [world.plans[RankKey("j1", 1, rank)] for rank in (0, 1)]
    assert [plan.command for plan in plans] == [("train", "--fast"), ("judge",)]
    assert {(plan.cwd, plan.grace_s) for plan in plans} == {("/work/j1.1", 3.0)}


def test_states_are_counted(world: World) -> None:
    world.order(prepare(gpus=("A", "B")))
    assert world.core.states() == {"preparing": 0, "ready": 0, "running": 2, "exited": 0}


def test_old_facts_are_dropped_in_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard_executor.core.gangs._KEPT_FACTS", 2)
    for number in range(3):
        world.order(stop(f"j{number}"))
    assert set(world.bus) == {"j1", "j2"}


def test_the_fact_of_a_running_attempt_is_not_dropped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard_executor.core.gangs._KEPT_FACTS", 2)
    world.order(stop("long", 1))
    world.order(prepare("long", 2))
    for number in range(5):
        world.order(stop(f"j{number}"))
    assert world.bus["long"].ranks[0].state is RUNNING
    assert len(world.bus) <= 4


def test_a_dropped_fact_does_not_bring_an_attempt_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard_executor.core.gangs._KEPT_FACTS", 2)
    for number in range(5):
        world.order(stop(f"j{number}"))
    world.order(prepare("j0"))
    assert (world.prepared, len(world.refused)) == ([], 1)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_who_orders_what_is_over_is_told_again(world: World, is_restarted: bool) -> None:
    world.order(prepare())
    world.exit(RankKey("j1", 1, 0), 3)
    told = world.fact
    if is_restarted:
        world.restart()
    for late in (prepare(), stop(term=2)):
        world.bus.clear()
        world.order(late)
        assert world.bus == {"j1": told}


def test_who_orders_what_is_over_is_told_even_without_details(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuyard_executor.core.gangs._KEPT_FACTS", 1)
    for job in ("j1", "j2"):
        world.order(prepare(job))
        world.exit(RankKey(job, 1, 0))
    world.order(stop("j1"))
    assert (world.fact.job, world.fact.released, world.fact.ranks) == ("j1", True, ())
    assert set(world.bus) == {"j1"}


def test_orders_that_concern_nobody_any_more_are_not_answered(world: World) -> None:
    world.order(stop("j1", 1, term=5))
    world.order(stop("j1", 2, term=5))
    newest = len(world.published)
    for late in (stop("j1", 1, term=5), stop("j1", 2, term=4), start("j1", 2, term=5)):
        world.order(late)
    world.order(prepare("j1", 3, term=5))
    world.order(stop("j1", 2, term=5))
    assert [(fact.attempt, fact.released) for fact in world.published[newest:]] == [(3, False)]


def test_an_unknown_transition_raises() -> None:
    with pytest.raises(UnknownTransition):
        step(EXITED, RUNNING)
    with pytest.raises(UnknownTransition):
        step(RUNNING, READY)


def test_output_may_be_shipped_before_the_end_is_published(world: World) -> None:
    world.order(prepare())
    key = RankKey("j1", 1, 0)
    world.feed(OutputShipped(key))
    world.settle()
    assert world.forgotten == []
