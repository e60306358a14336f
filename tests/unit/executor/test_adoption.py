"""What an executor makes of what it finds at its start."""

from gpuyard.contracts.fact import GangFact, RankFact, RankState
from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.rank import GangKey, RankKey
from tests.unit.executor.orders import NODE, prepare, start, stop
from tests.unit.executor.world import NOW_S, World

KEY = RankKey("j1", 1, 0)


def test_a_running_gang_goes_on() -> None:
    world = World()
    world.order(prepare(gpus=("A",)))
    world.restart()
    world.settle()
    assert (world.prepared, world.started, len(world.published)) == ([KEY], [KEY], 1)
    world.order(prepare("j2", gpus=("A",)))
    assert world.fact.released, "its GPU is still held"
    world.exit(KEY, 0)
    assert (world.bus["j1"].released, world.bus["j1"].master_port) == (True, 20000)


def test_an_order_that_was_recorded_but_not_carried_out() -> None:
    world = World()
    world.journal["j1", 1, type(prepare())] = prepare()
    world.restart()
    world.settle()
    assert world.started == [KEY]


def test_a_start_that_was_recorded_but_not_carried_out() -> None:
    world = World()
    world.order(prepare(start_when_ready=False))
    world.journal["j1", 1, type(start())] = start()
    world.restart()
    world.settle()
    assert world.started == [KEY]


def test_a_stop_that_was_recorded_but_not_carried_out() -> None:
    world = World()
    world.order(prepare())
    world.journal["j1", 1, type(stop())] = stop()
    world.restart()
    world.settle()
    assert (world.fact.released, [stop.key for stop in world.stops]) == (True, [KEY])


def test_a_stop_of_what_had_not_begun() -> None:
    world = World()
    for order in (prepare(), stop()):
        world.journal["j1", 1, type(order)] = order
    world.restart()
    world.settle()
    exited = world.fact.ranks[0].exit
    assert exited
    assert (world.prepared, exited.cause) == ([], ExitCause.CANCELLED)


def test_a_rank_that_ran_and_vanished_is_lost_and_not_run_again() -> None:
    world = World()
    world.order(prepare(gpus=("A", "B")))
    del world.engine[KEY]
    world.restart()
    world.settle()
    exited = world.fact.ranks[0].exit
    assert exited
    assert (exited.cause, world.fact.ranks[1].state) == (ExitCause.NODE_LOST, RankState.RUNNING)
    assert len(world.prepared) == 2


def test_a_fact_without_anything_behind_it_is_corrected() -> None:
    world = World()
    ranks = (
        RankFact(0, RankState.RUNNING, ("A",), started_at_s=NOW_S),
        RankFact(1, RankState.PREPARING, ("B",)),
    )
    world.bus["j1"] = GangFact(NODE, "j1", 2, 7, NOW_S, ranks)
    world.restart()
    world.settle()
    assert (world.fact.attempt, world.fact.released, world.fact.term) == (2, True, 7)
    assert {rank.exit.cause for rank in world.fact.ranks if rank.exit} == {ExitCause.NODE_LOST}


def test_a_rank_whose_orders_are_lost_is_ended() -> None:
    world = World()
    world.order(prepare())
    world.journal.clear()
    world.restart()
    world.settle()
    assert (world.live(), world.bus["j1"].released) == ([], True)


def test_a_rank_that_nobody_knows_of_is_ended_and_removed() -> None:
    world = World()
    world.order(prepare())
    world.journal.clear()
    world.bus.clear()
    world.restart()
    world.settle()
    assert (world.engine, world.bus) == ({}, {})


def test_output_is_shipped_to_its_end_after_the_release_was_told() -> None:
    world = World()
    world.order(prepare())
    world.feed_exit_without_shipping(KEY)
    assert world.bus["j1"].released
    assert world.forgotten == []
    world.restart()
    world.settle()
    assert world.forgotten == [GangKey("j1", 1)]
    assert len(world.published) == 2


def test_what_is_over_stays_over() -> None:
    world = World()
    world.order(prepare())
    world.exit(KEY, 0)
    world.restart()
    world.order(prepare())
    assert (world.prepared, world.refused[0].why) == ([KEY], "attempt 1 is over")
