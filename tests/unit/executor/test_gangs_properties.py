"""Any orders, repeated and shuffled, with the executor killed at any moment: the world checks as it goes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.order import Order
from gpuyard_executor.core.events import OrderReceived
from tests.unit.executor.orders import prepare, start, stop
from tests.unit.executor.world import World

JOBS = st.sampled_from(["j1", "j2", "j3"])
GPUS = st.lists(st.sampled_from("ABCD"), max_size=3, unique=True).map(tuple)


@st.composite
def orders(draw: st.DrawFn) -> Order:
    job, attempt, term = draw(JOBS), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    match draw(st.sampled_from(["prepare", "start", "stop"])):
        case "prepare":
            return prepare(
                job,
                attempt,
                term=term,
                gpus=draw(GPUS),
                start_when_ready=draw(st.booleans()),
                workdir=draw(st.sampled_from(["", "there", "missing"])),
                expires_at_s=draw(st.sampled_from([None, 0.0, 1e9])),
            )
        case "start":
            return start(job, attempt, term=term)
        case _:
            return stop(job, attempt, term=term)


STEPS = st.lists(
    st.one_of(orders(), st.just("step"), st.just("restart"), st.just("exit"), st.just("steps")), max_size=60
)


def play(world: World, steps: list[Order | str]) -> list[Order]:
    """Play a history; returns the orders in it."""
    given_ = []
    for each in steps:
        if each == "step":
            world.step()
        elif each == "steps":
            for _ in range(6):
                world.step()
        elif each == "restart":
            world.restart()
        elif each == "exit":
            running = [key for key in world.live() if key in world.started]
            if running:
                world.exit(running[0], code=len(running) % 3)
        elif not isinstance(each, str):
            world.feed(OrderReceived(each))
            given_.append(each)
    return given_


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_nothing_is_prepared_or_started_twice_and_no_gpu_is_shared(steps: list[Order | str]) -> None:
    play(World(), steps)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_every_stop_ends_in_released(steps: list[Order | str]) -> None:
    world = World()
    given_ = play(world, steps)
    world.settle()
    for order in given_:
        world.order(stop(order.job, order.attempt, term=9))
    world.settle()
    assert world.live() == []
    for order in given_:
        assert world.bus[order.job].released
        assert max(fact.attempt for fact in world.published if fact.job == order.job) >= order.attempt
    world.restart()
    world.settle()
    assert (world.engine, world.journal) == ({}, {}), "nothing is left behind"


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_a_published_release_is_final(steps: list[Order | str]) -> None:
    world = World()
    play(world, steps)
    world.settle()
    over: set[tuple[str, int]] = set()
    newest: dict[str, int] = {}
    for fact in world.published:
        assert fact.released or (fact.job, fact.attempt) not in over
        assert fact.attempt >= newest.get(fact.job, 0), "attempts never go back"
        newest[fact.job] = fact.attempt
        if fact.released:
            over.add((fact.job, fact.attempt))
