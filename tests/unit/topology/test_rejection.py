"""What a choice says about the sets that it did not take."""

import pytest

from gpuyard.topology.baselines import first_fit
from gpuyard.topology.choice import RejectedSet, choose, explained
from gpuyard.topology.shape import Shape
from tests.unit.topology.boxes import box, captured_shape, names_of, subsets
from tests.unit.topology.brute_force import worth

CUBE = captured_shape("v100-8gpu-cubemesh-1hca")
NDV2 = captured_shape("azure-ndv2-v100-8gpu")
PAIRS = captured_shape("titanv-8gpu-pix-phb-sys")
BRIDGED = captured_shape("a100-pcie-8gpu-bridged-pairs")
ALL_SYS = captured_shape("rtx4090-8gpu-all-sys")
SWITCHED = captured_shape("dgx-h100-8gpu-10hca")


def rejected(
    shape: Shape, free: range | tuple[int, ...], count: int, load: tuple[int, ...] = ()
) -> tuple[RejectedSet, ...]:
    choice = choose(shape, free, count, load)
    assert choice is not None
    return explained(shape, free, choice, load)


@pytest.mark.parametrize(
    ("shape", "free", "count", "load", "other", "why"),
    [
        (CUBE, (0, 1, 2, 4, 5), 3, (), (1, 2, 5), "bottleneck 10.2 instead of 24.1 GB/s: 2-5 has no NVLink"),
        (CUBE, range(8), 2, (), (0, 1), "bottleneck 24.1 instead of 48.2 GB/s: 0-1 is NV1 at 24.1"),
        (PAIRS, range(8), 2, (), (0, 2), "bottleneck 10.5 instead of 11.5 GB/s: 0-2 is PHB at 10.5"),
        (
            CUBE,
            range(8),
            4,
            (),
            (0, 3, 4, 7),
            "as fast a ring, but 189.1 instead of 216.9 GB/s in sum: 0-7 has no NVLink",
        ),
        (ALL_SYS, range(8), 2, (), (0, 4), "equal links, but spans 2 sockets instead of 1"),
        (BRIDGED, range(7), 1, (), (4,), "equal links, but breaks the pair 4-5 (NVLink)"),
        (
            PAIRS,
            range(7),
            2,
            (),
            (0, 1),
            "equal links, but breaks 4 pairs of PHB instead of 2",
        ),
        (NDV2, range(8), 2, (), (2, 4), "equal links, but breaks 2 quads of NVLink instead of 1"),
        (SWITCHED, range(8), 2, (0, 3, 2, 2, 0, 0, 1, 0), (4, 6), "equal links, but GPU 6 is busier"),
        (
            captured_shape("b200-8gpu-no-affinity"),
            range(8),
            2,
            (),
            (0, 2),
            "equal links, but has no network card as near",
        ),
        (
            SWITCHED,
            range(4),
            3,
            (),
            (0, 1, 3),
            "as good in every respect; of equals the lower indices are taken",
        ),
    ],
)
def test_each_criterion_has_its_words(
    shape: Shape,
    free: range | tuple[int, ...],
    count: int,
    load: tuple[int, ...],
    other: tuple[int, ...],
    why: str,
) -> None:
    found = {each.why: each.gpus for each in rejected(shape, free, count, load)}
    assert found.get(why) == other


def test_kinds_of_pairs_inside_a_set_count_where_bandwidth_is_unknown() -> None:
    shape = box([[0.0] * 4] * 4, [0, 0, 0, 1])
    assert [each.why for each in rejected(shape, range(4), 3)] == [
        "equal links, but spans 2 sockets instead of 1"
    ]


def test_the_nearest_miss_comes_first() -> None:
    whys = [each.why.split(":")[0] for each in rejected(CUBE, range(8), 2)]
    assert whys == [
        "equal links, but has no network card as near",
        "equal links, but breaks 2 pairs of NV2 on one socket instead of 1",
        "equal links, but spans 2 sockets instead of 1",
        "bottleneck 24.1 instead of 48.2 GB/s",
    ]


@pytest.mark.parametrize("name", names_of(range(2, 9)))
def test_what_is_rejected_is_free_different_and_no_better(name: str) -> None:
    shape = captured_shape(name)
    for free in subsets(shape.size)[3::31]:
        for count in range(1, free.bit_count()):
            choice = choose(shape, free, count)
            assert choice is not None
            others = explained(shape, free, choice)
            assert others
            for other in others:
                assert other.gpus != choice.gpus
                assert len(other.gpus) == count
                assert all(free >> gpu & 1 for gpu in other.gpus)
                if count > 1:
                    figures = worth(shape.gb_s, other.gpus)
                    assert (
                        (other.bottleneck_gb_s, other.sum_gb_s) == figures <= worth(shape.gb_s, choice.gpus)
                    )


@pytest.mark.parametrize("name", names_of(range(2, 9)))
def test_the_choice_of_another_policy_rejects_only_what_is_no_better(name: str) -> None:
    shape = captured_shape(name)
    for free in subsets(shape.size)[3::23]:
        for count in range(2, free.bit_count()):
            theirs = first_fit(shape, free, count)
            assert theirs is not None
            for other in explained(shape, free, theirs):
                assert (other.bottleneck_gb_s, other.sum_gb_s) <= (theirs.bottleneck_gb_s, theirs.sum_gb_s)


@pytest.mark.parametrize("count", [0, 8])
def test_where_there_was_no_choice_nothing_was_rejected(count: int) -> None:
    assert rejected(CUBE, range(8), count) == ()


def test_an_irregular_node_of_many_gpus_is_explained_by_exchanges() -> None:
    shape = box([[float((a * b) % 17) for b in range(20)] for a in range(20)])
    others = rejected(shape, range(20), 9)
    assert others
    choice = choose(shape, range(20), 9)
    assert choice is not None
    assert all(len(set(other.gpus) & set(choice.gpus)) == 8 for other in others)
