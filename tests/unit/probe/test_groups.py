from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.probe.groups import growing, sizes


@pytest.mark.parametrize(
    ("count", "expected"),
    [(2, [2]), (3, [2, 3]), (4, [2, 4]), (6, [2, 4, 6]), (8, [2, 4, 8]), (16, [2, 4, 8, 16])],
)
def test_groups_double_up_to_all(count: int, expected: list[int]) -> None:
    assert sizes(count) == expected


def test_the_fastest_pair_leads_and_the_best_linked_follow() -> None:
    rates = dict.fromkeys(combinations(range(4), 2), 10.0) | {(1, 3): 48.0, (0, 1): 24.0, (0, 3): 24.0}
    assert growing(4, rates) == [1, 3, 0, 2]


def test_equal_links_keep_the_order() -> None:
    assert growing(4, dict.fromkeys(combinations(range(4), 2), 10.0)) == [0, 1, 2, 3]


@given(st.integers(2, 8), st.randoms())
def test_everybody_takes_part_once(count: int, random: Random) -> None:
    rates = {pair: random.random() for pair in combinations(range(count), 2)}
    order = growing(count, rates)
    assert sorted(order) == list(range(count))
    assert rates[min(order[:2]), max(order[:2])] == max(rates.values())
