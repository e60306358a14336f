"""Bytes written by every release are read for ever, and mean what they meant."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import msgspec
import pytest

from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.schema import message_types
from tests.unit.contracts.examples import EXAMPLES
from tests.unit.contracts.golden import GOLDEN, present

REMEDY = (
    "run `python -m tests.unit.contracts.golden`; "
    "if this version is released, raise it first: fields may only be added, with defaults"
)

unpack: Callable[..., Any] = msgpack.loads


def keeps(new: Any, old: Any) -> bool:
    """Whether everything said in `old` is said in `new`; fields and items may have been added."""
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and keeps(new[key], old[key]) for key in old)
    if isinstance(old, list):
        return isinstance(new, list) and len(new) >= len(old) and all(map(keeps, new, old))
    return bool(new == old)


@pytest.mark.parametrize(
    "path", sorted(GOLDEN.rglob("*.msgpack")), ids=lambda path: str(path.relative_to(GOLDEN))
)
def test_golden_bytes_mean_what_they_meant(path: Path) -> None:
    data = path.read_bytes()

    message = decode(data, message_types()[path.stem])

    said = unpack(data, strict_map_key=False)
    assert keeps(unpack(encode(message), strict_map_key=False), said)


@pytest.mark.parametrize("kind", message_types().values())
def test_every_message_has_golden_bytes(kind: type[msgspec.Struct]) -> None:
    (example,) = [example for example in EXAMPLES if type(example) is kind]
    path = present() / f"{kind.__name__}.msgpack"

    assert path.is_file(), REMEDY
    assert decode(path.read_bytes(), kind) == example, REMEDY


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_examples_leave_no_field_at_its_default(example: msgspec.Struct) -> None:
    left = [
        field.name
        for field in msgspec.structs.fields(type(example))
        if not field.required and getattr(example, field.name) == field.default
    ]

    assert left == []


def test_keeps_notices_what_is_missing() -> None:
    assert keeps({"a": [1, {"b": 2, "c": 3}], "d": 4}, {"a": [1, {"b": 2}]})
    assert not keeps({"a": [1]}, {"a": [1, 2]})
    assert not keeps({"a": {"b": 2}}, {"a": {"b": 3}})
    assert not keeps({}, {"a": None})
