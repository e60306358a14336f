import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.yard.restart import FIRST_S, MOST_S, STEADY_S, after_exit


def waits_s(*ups_s: float) -> list[float]:
    falls, waits = 0, []
    for up_s in ups_s:
        falls, wait_s = after_exit(falls, up_s)
        waits.append(wait_s)
    return waits


def test_the_wait_doubles_up_to_ten_seconds() -> None:
    assert waits_s(*[0.0] * 8) == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]


def test_a_steady_while_is_forgiven() -> None:
    assert waits_s(0.0, 0.0, 0.0, STEADY_S, 0.0) == [0.2, 0.4, 0.8, 0.2, 0.4]


@pytest.mark.parametrize(("up_s", "falls"), [(STEADY_S - 0.001, 8), (STEADY_S, 1)])
def test_thirty_seconds_are_steady(up_s: float, falls: int) -> None:
    assert after_exit(7, up_s)[0] == falls


@settings(deadline=None)  # a loaded machine may stop for a second
@given(st.lists(st.floats(0, 100)))
def test_the_wait_stays_in_its_bounds(ups_s: list[float]) -> None:
    assert all(FIRST_S <= wait_s <= MOST_S for wait_s in waits_s(*ups_s))


def test_countless_falls_do_not_overflow() -> None:
    assert after_exit(10**6, 0.0) == (10**6 + 1, MOST_S)
