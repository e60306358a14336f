import json
from pathlib import Path

import pytest

from gpuyard.cli.gpu_list import gpu_list
from gpuyard.contracts.errors import InvalidSpec
from tests.unit.cli.conftest import Shell

CUBE = "v100-8gpu-cubemesh-1hca"


def test_the_best_linked_set_is_shown(shell: Shell) -> None:
    result = shell("place", "--capture", CUBE, "--gpus", "4", "--json")
    assert (result.code, result.err, shell.dirs) == (0, "", [])
    view = result.json
    assert view["gpus"] in ([0, 1, 2, 3], [4, 5, 6, 7])
    assert (view["bottleneck_gb_s"], view["links"]) == (24.1, {"NV2": 3, "NV1": 3})
    assert view["sum_gb_s"] == pytest.approx(3 * 48.2 + 3 * 24.1)
    for rejected in view["rejected"]:
        assert rejected.keys() == {"gpus", "bottleneck_gb_s", "sum_gb_s", "why"}
        assert rejected["why"]


def test_only_free_gpus_are_taken(shell: Shell) -> None:
    view = shell("place", "--capture", CUBE, "--gpus", "3", "--free", "0-2,4,5", "--json").json
    assert (view["gpus"], view["bottleneck_gb_s"], view["free"]) == ([0, 1, 2], 24.1, [0, 1, 2, 4, 5])


def test_other_policies_are_shown_beside_ours(shell: Shell) -> None:
    arguments = ["place", "--capture", CUBE, "--gpus", "3", "--free", "0,1,2,4,5", "--json"]
    theirs = shell(*arguments, "--policy", "go-gpuallocator").json
    assert (theirs["gpus"], theirs["links"]) == ([1, 2, 5], {"NV2": 2, "SYS": 1})
    assert [each["gpus"] for each in theirs["rejected"]] == [[0, 1, 2]]
    first = shell("place", "--capture", CUBE, "--gpus", "2", "--policy", "first-fit", "--json").json
    assert (first["gpus"], first["policy"]) == ([0, 1], "first-fit")
    assert shell(*arguments[:-1], "--policy", "first-fit", "--json").json["rejected"] == []


def test_one_gpu_has_no_links(shell: Shell) -> None:
    view = shell("place", "--capture", "a6000-3gpu-one-bridge", "--gpus", "1", "--json").json
    assert (view["gpus"], view["bottleneck_gb_s"], view["sum_gb_s"], view["links"]) == ([2], None, None, {})


def test_the_decision_for_people(shell: Shell) -> None:
    result = shell(
        "place", "--capture", CUBE, "--gpus", "3", "--free", "0-2,4,5", "--policy", "go-gpuallocator"
    )
    assert result.out.splitlines() == [
        f"GPU 1, 2, 5 of {CUBE}, chosen by go-gpuallocator from 5 free",
        "  links                          2 x NV2 48.2 GB/s, 1 x SYS 10.2 GB/s",
        "  slowest link of the best ring  10.2 GB/s",
        "  all links together             106.6 GB/s",
        "not taken:",
        "  GPU 0, 1, 2: gpuyard takes these: 24.1 GB/s at the slowest link, 96.4 GB/s together",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "9"], "9 GPUs can never fit"),
        (["--gpus", "3", "--free", "1,2"], "2 of 8 are free"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_reason(shell: Shell, arguments: list[str], message: str) -> None:
    result = shell("place", "--capture", CUBE, *arguments, "--json")
    failure = json.loads(result.out)
    assert (result.code, failure["code"]) == (4, "refused")
    assert message in failure["message"]


def test_a_policy_that_fails_is_told_apart_from_no_room(shell: Shell) -> None:
    """Five free GPUs do not divide into threes, and go-gpuallocator returns the set that it padded."""
    arguments = ["place", "--capture", "a100-pcie-8gpu-bridged-pairs", "--gpus", "3", "--free", "0,1,4-6"]
    result = shell(*arguments, "--policy", "go-gpuallocator")
    assert (result.code, result.out) == (4, "")
    assert "fails to place 3 GPUs on 5 free ones, though they fit" in result.err
    assert "`gpuyard` finds a place" in result.err
    assert shell(*arguments).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "0"], "--gpus is 0"),
        (["--gpus", "-1"], "--gpus is -1"),
        (["--gpus", "two"], "two"),
        (["--gpus", "1", "--free", "8"], "no GPU 8"),
        (["--gpus", "1", "--free", "0-99999"], "no list of GPUs"),
        (["--gpus", "1", "--free", "0,0"], "twice"),
        (["--gpus", "1", "--free", "3-1"], "no list of GPUs"),
        (["--gpus", "1", "--free", "all"], "no list of GPUs"),
        (["--gpus", "1", "--free", ""], "no list of GPUs"),
        (["--gpus", "1", "--policy", "firstfit"], "Did you mean `first-fit`?"),
        ([], "--gpus"),
    ],
)
def test_mistakes(shell: Shell, arguments: list[str], message: str) -> None:
    result = shell("place", "--capture", CUBE, *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_file_that_cannot_be_trusted(shell: Shell, tmp_path: Path) -> None:
    bad = tmp_path / "bad.txt"
    bad.write_text("\tGPU0\tGPU1\nGPU0\t X \tPIX\nGPU1\tSYS\t X \n")
    result = shell("place", "--capture", str(bad), "--gpus", "2", "--json")
    failure = json.loads(result.out)
    assert (result.code, failure["code"]) == (2, "invalid")
    assert failure["line"] in (2, 3)


@pytest.mark.parametrize(("text", "gpus"), [("0", (0,)), (" 3, 0-1 ", (0, 1, 3)), ("0-7", tuple(range(8)))])
def test_lists_of_gpus(text: str, gpus: tuple[int, ...]) -> None:
    assert gpu_list(text, 8) == gpus


@pytest.mark.parametrize("text", [",", "1,", "-1", "1-", "٣", "1 2", "0x1", "1-2-3"])
def test_what_is_no_list_of_gpus(text: str) -> None:
    with pytest.raises(InvalidSpec, match="no list of GPUs"):
        gpu_list(text, 8)
