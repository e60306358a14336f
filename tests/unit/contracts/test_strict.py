from typing import Any

import pytest

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.job import Job, JobSpec
from gpuyard.contracts.request import Submit
from gpuyard.contracts.strict import check_keys, unknown_key

TASK: dict[str, Any] = {"command": ["true"], "gpus": 2, "env": {"ANYTHING": "goes"}}


def refusal(data: object, kind: Any = JobSpec) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as caught:
        check_keys(data, kind)
    return caught.value


def test_known_keys_pass() -> None:
    spec = {"tasks": [TASK, TASK], "name": "digits", "labels": {"free": "text"}}

    check_keys(spec, JobSpec)
    check_keys({"type": "submit", "request_id": "r1", "spec": spec}, Submit)


def test_the_nearest_key_is_named() -> None:
    error = refusal({"tasks": [TASK], "priorty": 3})

    assert error.message == "unknown key `priorty`"
    assert error.hint == "Did you mean `priority`?"
    assert error.details["key"] == "priorty"


def test_the_place_is_named() -> None:
    spec = {"tasks": [TASK, TASK | {"gpu": 1}]}

    assert refusal(spec).message == "unknown key `gpu` in `tasks[1]`"
    assert (
        refusal({"request_id": "r1", "spec": spec}, Submit).message == "unknown key `gpu` in `spec.tasks[1]`"
    )


def test_without_a_near_key_all_are_listed() -> None:
    assert refusal({"xyzzy": 1}).hint.startswith("Known keys: grace_s, labels, ")


def test_optional_structs_are_checked_too() -> None:
    assert refusal({"reason": {"cod": "x"}}, Job).hint == "Did you mean `code`?"
    check_keys({"reason": None}, Job)


def test_values_are_not_its_business() -> None:
    check_keys({"tasks": "wrong type", "priority": []}, JobSpec)
    check_keys(["not", "a", "map"], JobSpec)


def test_unknown_key_takes_any_collection() -> None:
    assert unknown_key("runing", ["running", "queued"]).hint == "Did you mean `running`?"
