"""Any symmetric matrix: the choice is that of brute force, whatever the numbering of the GPUs."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.hardware import Level, Link
from gpuyard.topology.choice import choose
from gpuyard.topology.matrix_text import Affinity
from gpuyard.topology.ring import bits_of, mask_of
from gpuyard.topology.search import best_set, terrain_of
from gpuyard.topology.shape import Shape, shape_of_parts
from tests.unit.topology.boxes import box, distinct_captures, names_of, subsets
from tests.unit.topology.brute_force import worth

Rates = list[list[float]]

RATES = st.one_of(
    st.sampled_from([9.0, 12.0, 24.1, 48.2]),
    st.integers(0, 1000).map(lambda tenths: tenths / 10),
)


@st.composite
def matrices(draw: st.DrawFn, most: int) -> Rates:
    size = draw(st.integers(2, most))
    rates = [[0.0] * size for _ in range(size)]
    for a, b in combinations(range(size), 2):
        rates[a][b] = rates[b][a] = draw(RATES)
    return rates


def two_sockets(a: int, b: int) -> float:
    return 40.0 if a // 8 == b // 8 else 10.0


def two_sockets_and_a_bridge(a: int, b: int) -> float:
    return 80.0 if {a, b} == {7, 8} else two_sockets(a, b)


def pairs_quads_sockets(a: int, b: int) -> float:
    return next(
        rate for rate, size in ((26.3, 2), (26.0, 4), (25.5, 8), (21.5, 16)) if a // size == b // size
    )


def uneven_halves(a: int, b: int) -> float:
    return 50.0 if (a < 7) != (b < 7) else 5.0


@settings(max_examples=60, deadline=None)
@given(matrices(7), st.data())
def test_random_matrices_are_solved_as_by_brute_force(rates: Rates, data: st.DataObject) -> None:
    size = len(rates)
    free = data.draw(st.sets(st.integers(0, size - 1), min_size=2))
    for count in range(2, len(free) + 1):
        choice = choose(box(rates), free, count)
        best = max(worth(rates, gpus) for gpus in combinations(sorted(free), count))
        assert choice is not None
        assert (choice.bottleneck_gb_s, choice.sum_gb_s) == best


@pytest.mark.parametrize("seed", range(3))
def test_nine_random_gpus_are_solved_as_by_brute_force(seed: int) -> None:
    rates = _random(9, random.Random(seed).random)
    for count in (2, 4, 5, 7):
        choice = choose(box(rates), range(9), count)
        best = max(worth(rates, gpus) for gpus in combinations(range(9), count))
        assert choice is not None
        assert (choice.bottleneck_gb_s, choice.sum_gb_s) == best


@pytest.mark.parametrize("seed", range(2))
def test_sixteen_random_gpus_are_solved_as_by_brute_force(seed: int) -> None:
    rates = _random(16, random.Random(seed).random)
    for count in (2, 3, 5):
        choice = choose(box(rates), range(16), count)
        best = max(worth(rates, gpus) for gpus in combinations(range(16), count))
        assert choice is not None
        assert (choice.bottleneck_gb_s, choice.sum_gb_s) == best


@settings(max_examples=60, deadline=None)
@given(matrices(9), st.randoms(use_true_random=False))
def test_the_numbering_of_gpus_changes_no_objective(rates: Rates, order: random.Random) -> None:
    size = len(rates)
    new = list(range(size))
    order.shuffle(new)
    renumbered = [[rates[new[a]][new[b]] for b in range(size)] for a in range(size)]
    for count in range(2, size + 1):
        one, two = choose(box(rates), range(size), count), choose(box(renumbered), range(size), count)
        assert one is not None
        assert two is not None
        assert (one.bottleneck_gb_s, one.sum_gb_s) == (two.bottleneck_gb_s, two.sum_gb_s)


@pytest.mark.parametrize("name", names_of(range(2, 9)))
def test_collapsing_twins_changes_no_choice(name: str) -> None:
    shape = distinct_captures()[name]
    terrain = terrain_of(shape)
    plain = replace(terrain, twins=tuple(range(shape.size)))
    loads = random.Random(7)
    for free in subsets(shape.size)[1 :: 1 if shape.size < 8 else 3]:
        load = [loads.choice((0, 0, 1, 3)) for _ in range(shape.size)]
        for count in range(1, free.bit_count() + 1):
            assert best_set(terrain, free, count, load) == best_set(plain, free, count, load)


def test_twins_are_those_that_may_be_exchanged() -> None:
    links = [Link(a, b, Level.SYSTEM, gb_s=9.0) for a, b in combinations(range(5), 2)]
    faster = [Link(0, 3, Level.SYSTEM, gb_s=20.0), *(link for link in links if (link.a, link.b) != (0, 3))]
    sides = [Affinity(numa=side) for side in (0, 0, 1, 0, 0)]
    assert terrain_of(shape_of_parts(sides, faster)).twins == (0, 1, 2, 0, 1)


@pytest.mark.parametrize("rate", [two_sockets, two_sockets_and_a_bridge, pairs_quads_sockets, uneven_halves])
def test_structured_machines_of_sixteen_are_exact(rate: Callable[[int, int], float]) -> None:
    shape = _made(16, rate)
    for free in (0xFFFF, 0xFDB7, 0x7EEF):
        for count in (2, 4, 5):
            choice = choose(shape, free, count)
            best = max(worth(shape.gb_s, gpus) for gpus in combinations(bits_of(free), count))
            assert choice is not None
            assert (choice.bottleneck_gb_s, choice.sum_gb_s) == best


def test_eight_of_sixteen_are_one_socket() -> None:
    choice = choose(_made(16, two_sockets_and_a_bridge), range(16), 8)
    assert choice is not None
    assert (choice.gpus, choice.bottleneck_gb_s) == (tuple(range(8)), 40.0)


@pytest.mark.parametrize("size", [24, 72, 128])
def test_large_switched_nodes_are_chosen_from_exactly(size: int) -> None:
    shape = _made(size, lambda a, b: 747.0, [gpu // (size // 2) for gpu in range(size)])
    choice = choose(shape, range(3, size), size // 2)
    assert choice is not None
    assert choice.gpus == tuple(range(size // 2, size))


@pytest.mark.parametrize("size", [20, 48])
def test_large_irregular_nodes_get_a_good_set(size: int) -> None:
    rates = _random(size, random.Random(size).random)
    shape = box(rates)
    for count in (1, 2, 3, 8, size - 1, size):
        choice = choose(shape, range(size), count)
        assert choice is not None
        assert len(set(choice.gpus)) == count
        if count > 1:
            first = choose(shape, range(count), count)
            assert first is not None
            assert (choice.bottleneck_gb_s or 0) >= (first.bottleneck_gb_s or 0)
        assert mask_of(choice.gpus) < 1 << size


def _random(size: int, draw: Callable[[], float]) -> Rates:
    rates = [[0.0] * size for _ in range(size)]
    for a, b in combinations(range(size), 2):
        rates[a][b] = rates[b][a] = round(draw() * 100, 1)
    return rates


def _made(size: int, rate: Callable[[int, int], float], sides: list[int] | None = None) -> Shape:
    return box([[rate(a, b) for b in range(size)] for a in range(size)], sides)
