"""The choice over every capture, every set of free GPUs and every size, beside brute force and a baseline."""

from functools import cache
from itertools import combinations

import pytest

from gpuyard.topology.baselines import go_gpuallocator
from gpuyard.topology.choice import Choice, choose
from gpuyard.topology.ring import bits_of, mask_of
from gpuyard.topology.shape import Shape
from tests.unit.topology.boxes import box, captured_shape, distinct_captures, names_of, subsets
from tests.unit.topology.brute_force import Worth, all_worths, best_worths, damage

SMALL = names_of(range(1, 9))
CUBE = captured_shape("v100-8gpu-cubemesh-1hca")
BRIDGED = captured_shape("a100-pcie-8gpu-bridged-pairs")
SWITCHED = captured_shape("dgx-h100-8gpu-10hca")
ALL_SYS = captured_shape("rtx4090-8gpu-all-sys")
PAIRS = captured_shape("titanv-8gpu-pix-phb-sys")


def gpus_of(shape: Shape, free: object, count: int, load: tuple[int, ...] = ()) -> tuple[int, ...]:
    choice = choose(shape, free, count, load)  # type: ignore[arg-type]
    assert choice is not None
    return choice.gpus


@cache
def worths_of(name: str) -> dict[int, Worth]:
    return all_worths(distinct_captures()[name].gb_s)


@pytest.mark.parametrize("name", SMALL)
def test_bottleneck_and_sum_are_those_of_brute_force(name: str) -> None:
    shape, worths = distinct_captures()[name], worths_of(name)
    for free in subsets(shape.size):
        for count, best in best_worths(worths, free).items():
            choice = choose(shape, free, count)
            assert choice is not None
            assert (choice.bottleneck_gb_s, choice.sum_gb_s) == best == worths[mask_of(choice.gpus)]
            assert len(choice.gpus) == count
            assert mask_of(choice.gpus) & ~free == 0


@pytest.mark.parametrize("name", SMALL)
def test_no_bottleneck_is_below_that_of_go_gpuallocator(name: str) -> None:
    shape, worths = distinct_captures()[name], worths_of(name)
    for free in subsets(shape.size):
        for count in range(2, free.bit_count() + 1):
            theirs = go_gpuallocator(shape, free, count)
            if theirs is not None:
                ours = worths[mask_of(gpus_of(shape, free, count))]
                assert ours[0] >= worths[mask_of(theirs.gpus)][0]


@pytest.mark.parametrize("name", SMALL)
def test_of_equal_sets_the_one_that_breaks_least_is_taken(name: str) -> None:
    shape, worths = distinct_captures()[name], worths_of(name)
    for free in subsets(shape.size)[:: 1 if shape.size < 8 else 5]:
        gpus = bits_of(free)
        for count in range(1, len(gpus)):
            chosen = gpus_of(shape, free, count)
            equal = [
                other
                for other in combinations(gpus, count)
                if worths.get(mask_of(other)) == worths.get(mask_of(chosen))
            ]
            assert damage(shape, gpus, chosen) == min(damage(shape, gpus, other) for other in equal)


@pytest.mark.parametrize("name", names_of(range(1, 17)))
def test_a_single_gpu_breaks_no_nvlink_pair_while_a_lone_one_is_free(name: str) -> None:
    shape = distinct_captures()[name]
    for free in subsets(shape.size)[1 :: 1 if shape.size < 9 else 37]:
        gpus = bits_of(free)
        lone = [gpu for gpu in gpus if not any(shape.nvlinks[gpu][other] for other in gpus)]
        (chosen,) = gpus_of(shape, free, 1)
        assert chosen in (lone or gpus)


@pytest.mark.parametrize("count", range(1, 17))
def test_a_dgx2_is_chosen_from_in_any_state(count: int) -> None:
    shape = captured_shape("dgx2-v100-16gpu-derived")
    for free in subsets(16)[2**count - 1 :: 641]:
        choice = choose(shape, free, count)
        assert (choice is None) == (free.bit_count() < count)
        if choice is not None and count > 1:
            assert choice.bottleneck_gb_s == shape.gb_s[0][1]
            sides = [[gpu for gpu in bits_of(free) if gpu // 8 == side] for side in (0, 1)]
            fits = any(len(side) >= count for side in sides)
            assert len({gpu // 8 for gpu in choice.gpus}) == (1 if fits else 2)


@pytest.mark.parametrize(
    ("shape", "free", "count", "chosen"),
    [
        (CUBE, range(8), 2, (0, 3)),
        (CUBE, range(8), 3, (0, 2, 3)),
        (CUBE, range(8), 4, (0, 1, 2, 3)),
        (CUBE, (0, 1, 2, 4, 5), 3, (0, 1, 2)),
        (CUBE, (0, 1, 4, 5, 6, 7), 1, (0,)),
        (BRIDGED, range(7), 1, (6,)),
        (BRIDGED, (0, 1, 2, 4), 2, (0, 2)),
        (BRIDGED, (1, 4, 5), 1, (1,)),
        (ALL_SYS, range(1, 8), 1, (1,)),
        (ALL_SYS, range(2, 8), 2, (2, 3)),
        (ALL_SYS, (0, 1, 2, 5, 6, 7), 3, (0, 1, 2)),
        (SWITCHED, (0, 4, 5), 2, (4, 5)),
        (SWITCHED, (0, 1, 2, 3, 5, 6, 7), 1, (5,)),
        (PAIRS, (0, 2, 3, 4, 5, 6, 7), 1, (0,)),
        (PAIRS, (0, 1, 2, 4, 5, 6, 7), 2, (0, 1)),
    ],
)
def test_choices_that_a_person_would_make(
    shape: Shape, free: range | tuple[int, ...], count: int, chosen: tuple[int, ...]
) -> None:
    assert gpus_of(shape, free, count) == chosen


def test_the_free_set_may_be_a_mask() -> None:
    assert choose(CUBE, 0b11110000, 2) == choose(CUBE, (4, 5, 6, 7), 2) == choose(CUBE, [7, 5, 6, 4], 2)


def test_gpus_that_the_node_lacks_are_never_taken() -> None:
    assert choose(BRIDGED, range(6, 40), 2) == choose(BRIDGED, (6, 7), 2)
    assert choose(BRIDGED, range(7, 40), 2) is None


@pytest.mark.parametrize("count", [-1, 3, 100])
def test_what_does_not_fit_is_no_choice(count: int) -> None:
    assert choose(CUBE, (1, 2), count) is None


def test_a_choice_of_fewer_than_two_has_no_figures() -> None:
    assert choose(CUBE, (1, 2), 0) == Choice((), None, None)
    assert choose(CUBE, (5,), 1) == Choice((5,), None, None)
    assert choose(captured_shape("gb10-spark-1gpu-4nic"), (0,), 1) == Choice((0,), None, None)


def test_links_of_unknown_bandwidth_still_count_by_kind() -> None:
    nothing = [[0.0] * 4] * 4
    assert gpus_of(box(nothing, [0, 1, 0, 1]), range(4), 2) == (0, 2)
    assert choose(box(nothing), range(4), 2) == Choice((0, 1), 0.0, 0.0)


def test_load_decides_between_equals_only() -> None:
    assert gpus_of(SWITCHED, range(8), 2, (9, 0, 9, 0, 0, 0, 9, 9)) == (1, 3)
    assert gpus_of(SWITCHED, range(8), 4, (1, 0, 0, 0, 0, 0, 0, 0)) == (4, 5, 6, 7)
    assert gpus_of(CUBE, range(8), 2, (1, 1, 1, 1, 0, 0, 0, 0)) == (4, 7)
    assert gpus_of(CUBE, (0, 1, 2, 3), 2, (9, 0, 0, 9, 0, 0, 0, 0)) == (1, 2)
    assert gpus_of(CUBE, (0, 1, 2, 3), 2, (0, 9, 9, 0, 0, 0, 0, 0)) == (0, 3)
    assert gpus_of(BRIDGED, (0, 2, 4), 1, (0, 0, 0, 0, 9, 0, 0, 0)) == (4,)


def test_the_load_of_busy_gpus_changes_nothing() -> None:
    assert choose(SWITCHED, (4, 5, 6), 2, (9, 9, 9, 9, 0, 0, 0, 9)) == choose(SWITCHED, (4, 5, 6), 2)
