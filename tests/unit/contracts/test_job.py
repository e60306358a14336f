from typing import Any

import pytest

from gpuyard.contracts.codec import validated
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.hardware import Level, Link
from gpuyard.contracts.job import JobSpec, JobState, TaskSpec
from tests.unit.contracts.examples import PLACEMENT, SLOTS, SPEC


@pytest.mark.parametrize(
    ("gpus", "ranks", "expected_ranks", "gpus_per_rank"),
    [(0, None, 1, 0), (1, None, 1, 1), (8, None, 8, 1), (8, 2, 2, 4), (8, 1, 1, 8), (0, 3, 3, 0)],
)
def test_ranks_and_their_gpus(gpus: int, ranks: int | None, expected_ranks: int, gpus_per_rank: int) -> None:
    task = TaskSpec(("true",), gpus=gpus, ranks=ranks)

    assert (task.rank_count, task.gpus_per_rank) == (expected_ranks, gpus_per_rank)


def test_gpus_must_divide_evenly() -> None:
    with pytest.raises(ValueError, match="can't be divided evenly"):
        TaskSpec(("true",), gpus=8, ranks=3)
    with pytest.raises(ValueError, match="1 GPU can't be divided evenly between 2 ranks"):
        TaskSpec(("true",), gpus=1, ranks=2)


@pytest.mark.parametrize("command", [("",), ()])
def test_an_empty_command_is_refused(command: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="the command is empty"):
        TaskSpec(command)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"gpus": "x"}, "`gpus` is 'x': it must be a whole number"),
        ({"gpus": 1.5}, "`gpus` is 1.5: it must be a whole number"),
        ({"ranks": "2"}, "`ranks` is '2': it must be a whole number"),
        ({"ranks": 0}, "`ranks` is 0: a task has at least one rank"),
    ],
)
def test_counts_that_are_none_are_named(counts: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TaskSpec(("true",), **counts)


def test_a_gang_adds_up_its_tasks() -> None:
    assert (SPEC.rank_count, SPEC.gpu_count) == (3, 2)


def test_values_built_in_python_are_checked_like_those_from_the_wire() -> None:
    assert validated(SPEC) == SPEC
    with pytest.raises(InvalidSpec, match="`priority` is 5000: it must be at most 1000"):
        validated(JobSpec((TaskSpec(("true",)),), priority=5000))


def test_final_states() -> None:
    assert {state for state in JobState if state.is_final} == {"succeeded", "failed", "cancelled"}


def test_a_placement_knows_its_nodes() -> None:
    assert PLACEMENT.nodes == ("node-a",)
    assert PLACEMENT.on("node-a") == SLOTS
    assert PLACEMENT.on("node-b") == ()


@pytest.mark.parametrize(
    ("link", "label"),
    [
        (Link(0, 1, Level.SYSTEM, nvlinks=4), "NV4"),
        (Link(0, 1, Level.SINGLE_SWITCH), "PIX"),
        (Link(0, 1), "?"),
    ],
)
def test_links_are_called_what_people_call_them(link: Link, label: str) -> None:
    assert link.label == label
