"""Our encoding against an independent referee, the `msgpack` package, in both directions."""

from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuyard.contracts.codec import decode, encode, validated
from gpuyard.contracts.schema import members, message_types
from gpuyard.contracts.subjects import CHANNELS
from tests.unit.contracts.instances import instances

MESSAGES = list(message_types().values())
TOMORROW = st.recursive(st.none() | st.binary() | st.integers(0, 9), st.lists, max_leaves=5)

pack: Callable[[Any], bytes] = msgpack.packb
wire = settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))


def plain(message: msgspec.Struct) -> Any:
    """The message as maps, lists and scalars; bytes stay bytes."""
    return msgspec.to_builtins(message, builtin_types=(bytes,))


def payloads_with(kind: type) -> Iterator[Any]:
    """Whatever a reader of a subject or an answer may expect when this type arrives."""
    for channel in CHANNELS:
        yield from (payload for payload in (channel.payload, channel.answer) if kind in members(payload))


@pytest.mark.parametrize("kind", MESSAGES)
@wire
@given(data=st.data())
def test_the_referee_reads_and_writes_the_same_bytes(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(instances(kind))

    packed = pack(plain(message))

    assert encode(message) == packed
    assert validated(message) == message
    for payload in payloads_with(kind):
        decoded = decode(packed, payload)
        assert type(decoded) is kind
        assert decoded == message


@pytest.mark.parametrize("kind", MESSAGES)
@wire
@given(data=st.data())
def test_old_and_new_versions_understand_each_other(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(instances(kind))
    optional = {field.encode_name for field in msgspec.structs.fields(kind) if not field.required}

    newer = {"a_field_of_tomorrow": data.draw(TOMORROW)} | plain(message)
    older = {key: value for key, value in plain(message).items() if key not in optional}

    assert decode(pack(newer), kind) == message
    read = plain(decode(pack(older), kind))
    assert read | older == read
