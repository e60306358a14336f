from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from gpuyard_scheduler.core.links import Matrix, best_set, bottleneck, matrix_of
from tests.unit.scheduler.world import inventory

SPEEDS = st.sampled_from([0.0, 10.0, 24.0, 48.0])


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    size = draw(st.integers(1, 6))
    rows = [[0.0] * size for _ in range(size)]
    for a, b in combinations(range(size), 2):
        rows[a][b] = rows[b][a] = draw(SPEEDS)
    return tuple(tuple(row) for row in rows)


@given(matrices(), st.data())
def test_no_other_set_has_a_faster_slowest_pair(matrix: Matrix, data: st.DataObject) -> None:
    free = tuple(sorted(data.draw(st.sets(st.sampled_from(range(len(matrix))), min_size=1))))
    count = data.draw(st.integers(1, len(free)))
    chosen = best_set(matrix, free, count)
    assert len(chosen) == count
    assert set(chosen) <= set(free)
    best = max((bottleneck(matrix, other) or 0.0) for other in combinations(free, count))
    assert (bottleneck(matrix, chosen) or 0.0) == best


def test_a_pair_is_taken_where_the_links_are_fast() -> None:
    matrix = matrix_of(inventory("a", 4, pairs={(1, 3): 48.0}))
    assert best_set(matrix, (0, 1, 2, 3), 2) == (1, 3)


def test_a_single_gpu_breaks_no_fast_pair() -> None:
    matrix = matrix_of(inventory("a", 3, pairs={(0, 1): 48.0}))
    assert best_set(matrix, (0, 1, 2), 1) == (2,)


def test_sixteen_gpus_are_chosen_without_trying_all_sets() -> None:
    pairs = dict.fromkeys(combinations(range(8), 2), 50.0)
    matrix = matrix_of(inventory("a", 16, pairs=pairs))
    assert best_set(matrix, tuple(range(16)), 8) == tuple(range(8))


def test_nothing_is_chosen_for_nothing() -> None:
    assert best_set(((0.0,),), (0,), 0) == ()
