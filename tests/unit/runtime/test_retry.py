from hypothesis import given
from hypothesis import strategies as st

from gpuyard.runtime.retry import backoff_s


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_waits_stay_between_nothing_and_the_cap(tries: int, chance: float) -> None:
    assert 0 <= backoff_s(tries, chance=chance) <= 5.0


def test_it_doubles() -> None:
    assert [backoff_s(tries, first_s=1, most_s=5, chance=1.0) for tries in (1, 2, 3, 4)] == [1, 2, 4, 5]
