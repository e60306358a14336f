"""Reference picks of go-gpuallocator: its own tests, and its objective over captures."""

from collections.abc import Iterable
from itertools import combinations

import pytest
from msgspec.structs import replace

from gpuyard.contracts.errors import Refused
from gpuyard.contracts.hardware import Level
from gpuyard.topology import captures
from gpuyard.topology.baselines import first_fit, go_gpuallocator, pair_score
from gpuyard.topology.choice import Choice
from gpuyard.topology.ring import mask_of
from gpuyard.topology.shape import Shape, shape_of_parts
from tests.unit.topology.boxes import box, captured_shape, names_of

ALL = range(8)
CUBE = "v100-8gpu-cubemesh-1hca"
NDV2 = "azure-ndv2-v100-8gpu"
BRIDGED = "a100-pcie-8gpu-bridged-pairs"
ODD = "rtx-5gpu-numa-odd-one"
UNEVEN = "8gpu-6plus2-uneven-phb"
TITAN = "titanv-8gpu-pix-phb-sys"


def gpus_of(choice: Choice | None) -> tuple[int, ...] | None:
    return None if choice is None else choice.gpus


def test_nvlinks_into_a_switch_count_nothing_but_the_level_they_hide() -> None:
    shape = captured_shape("dgx-h100-8gpu-10hca")
    assert (pair_score(shape, 0, 1), pair_score(shape, 0, 7)) == (20, 10)


def dgx1() -> Shape:
    """The machine of its own tests: a cube mesh of which the PCIe levels are known as well."""
    capture = captures.load(CUBE).topology
    links = [replace(link, level=level(link.a, link.b), gb_s=None) for link in capture.links]
    return shape_of_parts(capture.gpus, links)


def level(a: int, b: int) -> Level:
    if a // 4 != b // 4:
        return Level.SYSTEM
    return Level.SINGLE_SWITCH if a // 2 == b // 2 else Level.HOST_BRIDGE


def enumerated(shape: Shape, free: tuple[int, ...], count: int) -> tuple[int, ...] | None:
    """The policy as its source reads: every split, the first with the highest score, its best set."""
    seats = free + tuple(range(100, 100 + -len(free) % count))
    pads = set(seats) - set(free)

    def score(members: Iterable[int]) -> int:
        return sum(pair_score(shape, a, b) for a, b in combinations(members, 2) if not pads & {a, b})

    def splits(left: tuple[int, ...]) -> Iterable[list[tuple[int, ...]]]:
        if not left:
            yield []
        for others in combinations(left[1:], count - 1):
            members = (left[0], *others)
            if len(pads & set(members)) in (0, len(pads)):
                rest = tuple(seat for seat in left if seat not in members)
                yield from ([members, *split] for split in splits(rest))

    best = max((split for split in splits(seats)), key=lambda split: sum(map(score, split)))
    chosen = max(best, key=score)
    return None if pads & set(chosen) else chosen


@pytest.mark.parametrize(
    ("capture", "free", "count", "chosen"),
    [
        (CUBE, ALL, 2, (0, 3)),
        (CUBE, ALL, 3, (0, 2, 3)),
        (CUBE, ALL, 4, (0, 1, 2, 3)),
        (CUBE, range(1, 8), 2, (1, 2)),
        (CUBE, (0, 1, 4, 5), 2, (0, 4)),
        (CUBE, (0, 2, 5, 7), 2, (0, 2)),
        (CUBE, (0, 1, 2, 4, 5), 3, (1, 2, 5)),
        (NDV2, ALL, 2, (0, 1)),
        (NDV2, ALL, 3, (0, 1, 2)),
        (NDV2, ALL, 4, (0, 1, 2, 3)),
        (BRIDGED, ALL, 2, (0, 2)),
        (BRIDGED, (1, 2, 3, 5, 6, 7), 2, (1, 3)),
        (BRIDGED, range(1, 6), 3, (1, 2, 3)),
        (ODD, range(5), 3, (0, 1, 2)),
        (ODD, range(5), 2, (1, 2)),
        (ODD, range(5), 4, (1, 2, 3, 4)),
        (UNEVEN, ALL, 2, (1, 2)),
        (UNEVEN, ALL, 3, (0, 1, 2)),
        (UNEVEN, ALL, 4, (0, 1, 2, 5)),
        (UNEVEN, (0, 5, 6, 7), 2, (6, 7)),
        ("6gpu-4plus2", range(6), 2, (0, 1)),
        ("6gpu-4plus2", range(6), 3, (0, 1, 2)),
        ("6gpu-4plus2", range(6), 4, (0, 1, 2, 3)),
        (TITAN, ALL, 2, (0, 1)),
        (TITAN, ALL, 3, (0, 1, 2)),
        (TITAN, ALL, 4, (0, 1, 2, 3)),
        ("v100-4gpu-5hca-no-diagonal", range(4), 2, (0, 1)),
        ("v100-4gpu-5hca-no-diagonal", range(4), 3, (0, 1, 3)),
    ],
)
def test_reference_picks(capture: str, free: Iterable[int], count: int, chosen: tuple[int, ...]) -> None:
    assert gpus_of(go_gpuallocator(captured_shape(capture), free, count)) == chosen


@pytest.mark.parametrize(
    ("free", "required", "count", "chosen"),
    [
        ((0, 2, 4, 5), (), 2, (4, 5)),
        ((0, 4, 5, 6), (), 2, (5, 6)),
        ((0, 1, 3), (), 2, (0, 3)),
        ((0, 1, 4), (), 2, (0, 4)),
        (ALL, (4,), 1, (4,)),
        (ALL, (4,), 2, (4, 7)),
        (ALL, (4,), 4, (4, 5, 6, 7)),
        (ALL, (0, 2, 4, 6), 4, (0, 2, 4, 6)),
        (range(1, 8), (0, 1, 2, 3), 4, None),
        (ALL, (1, 2, 3, 4, 5, 6), 4, None),
        (range(1, 6), (1, 2, 3, 4, 5, 6), 1, None),
    ],
)
def test_picks_of_its_own_tests(
    free: Iterable[int], required: Iterable[int], count: int, chosen: tuple[int, ...] | None
) -> None:
    assert gpus_of(go_gpuallocator(dgx1(), free, count, required=required)) == chosen


@pytest.mark.parametrize(
    ("count", "chosen"),
    [
        (1, [(0,), (1,), (2,), (3,), (4,), (5,), (6,), (7,)]),
        (2, [(0, 3), (1, 2), (4, 7), (5, 6)]),
        (4, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        (8, [tuple(range(8))]),
    ],
)
def test_a_machine_is_filled_as_in_its_own_tests(count: int, chosen: list[tuple[int, ...]]) -> None:
    free = mask_of(ALL)
    for gpus in chosen:
        assert gpus_of(go_gpuallocator(dgx1(), free, count)) == gpus
        free ^= mask_of(gpus)
    assert go_gpuallocator(dgx1(), free, 1) is None


def test_a_single_gpu_is_the_first_free_one() -> None:
    assert gpus_of(go_gpuallocator(captured_shape(CUBE), (5, 6), 1)) == (5,)


def test_where_it_returns_padding_and_panics_there_is_no_choice() -> None:
    shape = captured_shape(BRIDGED)
    assert go_gpuallocator(shape, (0, 1, 4, 5, 6), 3) is None
    assert enumerated(shape, (0, 1, 4, 5, 6), 3) is None


@pytest.mark.parametrize("capture", [CUBE, NDV2, UNEVEN])
def test_the_split_is_the_one_that_an_enumeration_finds_first(capture: str) -> None:
    shape = captured_shape(capture)
    frees = [free for size in (4, 5, 6, 7) for free in list(combinations(ALL, size))[:: size - 2]]
    for free in frees:
        for count in (2, 3, 4):
            assert gpus_of(go_gpuallocator(shape, free, count)) == enumerated(shape, free, count)


def test_sixteen_gpus_are_split_in_time_and_more_are_refused() -> None:
    dgx2 = captured_shape("dgx2-v100-16gpu-derived")
    assert gpus_of(go_gpuallocator(dgx2, range(16), 8)) == tuple(range(8))
    with pytest.raises(Refused, match="split 17 GPUs"):
        go_gpuallocator(box([[1.0] * 17] * 17), range(17), 4)


@pytest.mark.parametrize("name", names_of(range(1, 17)))
def test_first_fit_takes_the_lowest_indices(name: str) -> None:
    shape = captured_shape(name)
    for count in range(shape.size + 1):
        assert gpus_of(first_fit(shape, range(shape.size), count)) == tuple(range(count))


@pytest.mark.parametrize("policy", [first_fit, go_gpuallocator])
def test_what_does_not_fit_is_no_choice(policy: type) -> None:
    shape = captured_shape(CUBE)
    assert policy(shape, (1, 2), 3) is None
    assert policy(shape, (1, 2), -1) is None
    assert policy(shape, mask_of((1, 2)), 0) == Choice((), None, None)
