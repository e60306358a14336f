from typing import Any

import pytest
from msgspec import structs

from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.job import JobSpec, TaskSpec
from gpuyard.contracts.request import Cancel, Submit
from tests.unit.contracts.examples import PLACEMENT


def spec(task: dict[str, Any] | None = None, **fields: Any) -> JobSpec:
    """A spec that nobody checked."""
    table = TaskSpec(("true",))
    for name, value in (task or {}).items():
        structs.force_setattr(table, name, value)
    return JobSpec((table,), **fields)


def refused(message: Any) -> InvalidSpec:
    with pytest.raises(InvalidSpec) as caught:
        decode(encode(message), type(message))
    return caught.value


@pytest.mark.parametrize(
    ("wrong", "message", "hint", "place"),
    [
        (
            spec(name="A/b"),
            "`spec.name` is `A/b`: a name has lower-case letters, digits and dashes, at most 63",
            "Try `a-b`.",
            "$.spec.name",
        ),
        (
            spec({"gpus": 70_000}),
            "`spec.tasks[0].gpus` is 70000: it must be at most 65536",
            "Give the GPUs of all ranks together, 0 to 65536.",
            "$.spec.tasks[0].gpus",
        ),
        (
            spec({"env": {"OK": "1", "A B": "x"}}),
            (
                "a key of `spec.tasks[0].env`, `A B`: a variable's name has letters, digits and underscores, "
                "no digit first"
            ),
            "Write variables like `SEED=1`.",
            "$.spec.tasks[0].env",
        ),
        (
            spec({"env": {"TOKEN": "secret\0"}}),
            "`spec.tasks[0].env[...]`: it can't hold NUL",
            "Write variables like `SEED=1`.",
            "$.spec.tasks[0].env[...]",
        ),
        (
            spec({"command": ()}),
            "`spec.tasks[0].command`: it must have a length of at least 1",
            "",
            "$.spec.tasks[0].command",
        ),
        (spec(owner="x" * 300), "`spec.owner`: it must have a length of at most 256", "", "$.spec.owner"),
        (
            spec({"gpus": 3, "ranks": 2}),
            "`spec.tasks[0]`: 3 GPUs can't be divided evenly between 2 ranks",
            "",
            "$.spec.tasks[0]",
        ),
    ],
)
def test_a_wrong_request_in_words(wrong: JobSpec, message: str, hint: str, place: str) -> None:
    error = refused(Submit("r1", wrong))
    assert (error.message, error.hint, error.details) == (message, hint, {"place": place})


def test_another_pattern_is_shown_as_it_is() -> None:
    assert "`reply_to` is `no inbox`: it does not match '^" in refused(Cancel("r1", "j1", "no inbox")).message


def test_a_missing_field_is_named() -> None:
    with pytest.raises(InvalidSpec, match="the message: its field `tasks` is missing"):
        decode(encode(PLACEMENT), JobSpec)


def test_what_is_no_message_says_so() -> None:
    with pytest.raises(InvalidSpec, match="malformed message"):
        decode(b"\xc1", JobSpec)
    with pytest.raises(InvalidSpec, match="the message: it must be a table of keys and values"):
        decode(b"\x90", JobSpec)
