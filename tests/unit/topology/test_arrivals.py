"""In random sequences of jobs more land on fully linked GPUs than with the baselines."""

import pytest

from tests.bench.arrivals import POLICIES, Tally, grade, tally, target
from tests.unit.topology.boxes import captured_shape, distinct_captures, names_of

SEEDS = range(3)
JOBS = 150
EIGHT = names_of(range(8, 9))


def tallies(name: str) -> dict[str, Tally]:
    return {each: tally(distinct_captures()[name], act, SEEDS, JOBS) for each, act in POLICIES.items()}


@pytest.mark.parametrize("name", EIGHT)
def test_more_jobs_land_on_fully_linked_gpus_or_on_one_socket(name: str) -> None:
    found = tallies(name)
    ours = found.pop("gpuyard")
    for theirs in found.values():
        assert ours.jobs == theirs.jobs
        if theirs.linked == theirs.jobs:
            assert ours.linked == theirs.linked
            assert ours.one_socket >= theirs.one_socket
        else:
            assert ours.all_linked > theirs.all_linked


def test_fully_linked_is_nvlink_or_the_best_level_of_the_machine() -> None:
    cube, pairs = captured_shape("v100-8gpu-cubemesh-1hca"), captured_shape("titanv-8gpu-pix-phb-sys")
    assert grade(cube, (0, 1, 2, 3)) == target(cube, 4) == target(cube, 2)
    assert grade(cube, (0, 1, 2, 4)) < target(cube, 4)
    assert grade(pairs, (0, 1)) == target(pairs, 2) > grade(pairs, (0, 2)) == target(pairs, 4)
