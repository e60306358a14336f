"""Bad bytes and bad values: always `InvalidSpec`, which names the place, and never anything else."""

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpuyard.contracts.codec import MAX_MESSAGE_BYTES, decode, encode
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.hardware import NodeSample
from gpuyard.contracts.job import JobSpec, TaskSpec
from gpuyard.contracts.log import LogQuery
from gpuyard.contracts.request import Cancel, Request, Submit
from gpuyard.contracts.schema import message_types
from tests.unit.contracts.examples import EXAMPLES

MESSAGES = list(message_types().values())
BAD_IDS = [
    "",
    "a/b",
    "a.b",
    "a*",
    ">",
    "*",
    "a b",
    "a\0b",
    "job\n",
    "-a",
    "Job",
    "größe",
    "../etc",
    "a\r\nPUB x",
    "a" * 64,
    "a" * 10_000,
]
HUGE = {
    "array": b"\xdd\xff\xff\xff\xff",
    "map": b"\xdf\xff\xff\xff\xff",
    "bin": b"\xc6\xff\xff\xff\xff",
    "str": b"\xdb\xff\xff\xff\xff",
    "ext": b"\xc9\xff\xff\xff\xff\x01",
}
SUBMIT = {"type": "submit", "request_id": "r1", "spec": {"tasks": [{"command": ["true"]}]}}

pack: Callable[[Any], bytes] = msgpack.packb
hostile = settings(deadline=None, max_examples=200, suppress_health_check=list(HealthCheck))


def with_value(place: tuple[str | int, ...], value: object) -> bytes:
    """A submission with one value exchanged."""
    message: Any = copy.deepcopy(SUBMIT)
    inner = message
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return pack(message)


def refusal(data: bytes, kind: Any = Request) -> str:
    with pytest.raises(InvalidSpec) as caught:
        decode(data, kind)
    return caught.value.message


def read_or_refused(data: bytes, kind: type[msgspec.Struct]) -> None:
    """Anything else that is raised fails the test."""
    with suppress(InvalidSpec):
        encode(decode(data, kind))


def test_the_unchanged_submission_is_fine() -> None:
    assert decode(pack(SUBMIT), Request) == Submit("r1", JobSpec((TaskSpec(("true",)),)))


@pytest.mark.parametrize("kind", MESSAGES)
@hostile
@given(data=st.binary(max_size=200))
@example(data=b"")
def test_random_bytes(kind: type[msgspec.Struct], data: bytes) -> None:
    read_or_refused(data, kind)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
@hostile
@given(data=st.data())
def test_damaged_bytes(message: msgspec.Struct, data: st.DataObject) -> None:
    damaged = bytearray(encode(message))
    for place in data.draw(st.lists(st.integers(0, len(damaged) - 1), min_size=1, max_size=3)):
        damaged[place] = data.draw(st.integers(0, 255))

    read_or_refused(bytes(damaged), type(message))


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_every_truncation_is_refused(message: msgspec.Struct) -> None:
    whole = encode(message)

    for length in range(len(whole)):
        refusal(whole[:length], type(message))
    refusal(whole + b"\xc0", type(message))


@pytest.mark.parametrize("huge", HUGE.values(), ids=HUGE)
def test_huge_lengths_cost_nothing(huge: bytes) -> None:
    refusal(huge)
    for field in (b"\xaarequest_id", b"\xa4spec", b"\xa8reply_to", b"\xa7unknown"):
        refusal(b"\x82\xa4type\xa6submit" + field + huge)


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\x82\xa4type\xa6submit\xa4spec"])
@pytest.mark.parametrize("before", [b"", b"\x82\xa4type\xa6submit\xa7unknown"])
def test_deep_nesting(before: bytes, opening: bytes) -> None:
    depth = (MAX_MESSAGE_BYTES - len(before) - 1) // len(opening)

    refusal(before + opening * depth + b"\xc0")


def test_a_message_larger_than_allowed() -> None:
    assert "2,000,000 bytes" in refusal(b"\xc6" + (2_000_000 - 1) * b"a")
    with pytest.raises(InvalidSpec, match="more than 1,000,000"):
        encode(JobSpec(tuple(TaskSpec(("x" * 131_072,), name=f"t{n}") for n in range(8))))


@pytest.mark.parametrize("value", [None, 1, 1.5, "submit", b"submit", [], [1], {1: 2}, {None: 2}])
def test_not_a_message_at_all(value: object) -> None:
    for kind in MESSAGES:
        refusal(pack(value), kind)


@pytest.mark.parametrize("tag", ["explode", "", "Submit", None, 1, b"submit"])
def test_unknown_types_are_named(tag: object) -> None:
    assert "`type`" in refusal(pack(SUBMIT | {"type": tag}))


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_missing_field_is_named(kind: type[msgspec.Struct]) -> None:
    (message,) = [message for message in EXAMPLES if type(message) is kind]
    plain = msgspec.to_builtins(message, builtin_types=(bytes,))

    for field in msgspec.structs.fields(kind):
        if field.required:
            shorter = {key: value for key, value in plain.items() if key != field.encode_name}
            assert f"`{field.encode_name}`" in refusal(pack(shorter), kind)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("request_id",), 7),
        (("spec",), []),
        (("spec", "tasks"), {"command": ["true"]}),
        (("spec", "tasks"), []),
        (("spec", "tasks", 0, "command"), "true"),
        (("spec", "tasks", 0, "command"), []),
        (("spec", "tasks", 0), {"command": [""]}),
        (("spec", "tasks", 0, "command", 0), b"true"),
        (("spec", "tasks", 0, "command", 0), "nul\0"),
        (("spec", "tasks", 0, "env"), [["A", "1"]]),
        (("spec", "tasks", 0, "env"), {"A=B": "1"}),
        (("spec", "priority"), 1001),
        (("spec", "grace_s"), float("nan")),
        (("spec", "grace_s"), float("inf")),
        (("spec", "launch_deadline_s"), 0),
        (("spec", "workdir"), "../../etc"),
        (("reply_to",), "gpuyard.state.term"),
        (("reply_to",), "_INBOX.>"),
        (("reply_to",), "_INBOX.*"),
    ],
)
def test_a_wrong_value_is_named(place: tuple[str | int, ...], value: object) -> None:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")

    assert f"`{path}`" in refusal(with_value(place, value))


@pytest.mark.parametrize("gpus", [-1, -(2**63), 65_537, 2**64 - 1, 1.0, 1e308, "1", True, None])
def test_impossible_gpu_counts(gpus: object) -> None:
    assert "`spec.tasks[0].gpus`" in refusal(with_value(("spec", "tasks", 0, "gpus"), gpus))


def test_gpus_that_cannot_be_divided() -> None:
    task = {"command": ["true"], "gpus": 3, "ranks": 2}

    assert "3 GPUs can't be divided evenly between 2 ranks" in refusal(with_value(("spec", "tasks"), [task]))


@pytest.mark.parametrize("bad", BAD_IDS, ids=repr)
def test_bad_ids(bad: str) -> None:
    refusal(with_value(("request_id",), bad))
    refusal(with_value(("spec", "name"), bad))
    refusal(pack({"type": "cancel", "request_id": "r1", "job": bad}), Cancel)
    refusal(pack({"job": bad}), LogQuery)
    refusal(pack({"node": bad, "at_s": 1.0, "seq": 0}), NodeSample)


def test_text_that_is_not_utf8() -> None:
    refusal(pack(SUBMIT).replace(b"true", b"\xff\xfe\xfd\xfc"))


def test_numbers_beyond_64_bits_are_not_sent() -> None:
    with pytest.raises(InvalidSpec, match="can't be encoded"):
        encode(NodeSample("n1", 1.0, seq=2**70))


def test_lone_surrogates_are_not_sent() -> None:
    with pytest.raises(InvalidSpec, match="can't be encoded"):
        encode(Cancel("r1", "\ud800"))
