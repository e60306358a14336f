"""MessagePack in and out: the only place where messages are encoded and decoded."""

from functools import cache
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec

from gpuyard.contracts.complaint import complaint
from gpuyard.contracts.errors import InvalidSpec

T = TypeVar("T")
StructT = TypeVar("StructT", bound=msgspec.Struct)

# The server refuses 1 MiB, headers included, by closing the connection: stay clear of it.
MAX_MESSAGE_BYTES = 1_000_000

_encoder = msgspec.msgpack.Encoder()


@cache
def _decoder(kind: Any) -> "msgspec.msgpack.Decoder[Any]":
    return msgspec.msgpack.Decoder(kind)


def encode(message: msgspec.Struct) -> bytes:
    """Encode a message.

    Raises:
        InvalidSpec: it is larger than a message may be, or holds a number outside 64 bits.
    """
    try:
        data = _encoder.encode(message)
    except (OverflowError, UnicodeEncodeError) as error:
        raise InvalidSpec(f"the {type(message).__name__} can't be encoded: {error}") from error
    if len(data) > MAX_MESSAGE_BYTES:
        raise InvalidSpec(
            f"the {type(message).__name__} has {len(data):,} bytes, more than {MAX_MESSAGE_BYTES:,}",
            "Shorten the command or the environment; ship files with the working directory.",
        )
    return data


@overload
def decode(data: bytes, kind: type[T]) -> T: ...
@overload
def decode(data: bytes, kind: UnionType | object) -> Any: ...
def decode(data: bytes, kind: Any) -> Any:
    """Decode and check a message of the given type (a struct or a union of structs).

    Raises:
        InvalidSpec: not MessagePack, too large, a field missing or wrong; the message names the field.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise InvalidSpec(f"a message of {len(data):,} bytes; at most {MAX_MESSAGE_BYTES:,} are allowed")
    try:
        return _decoder(kind).decode(data)
    except msgspec.ValidationError as error:
        raise complaint(error, _plain(data)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSpec(f"malformed message: {error}") from error


def _plain(data: bytes) -> object:
    """The message as it came; None if only a stricter look found that it can't be read."""
    try:
        return msgspec.msgpack.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def validated(message: StructT) -> StructT:
    """Check a message that was built in Python as strictly as one that came over the wire."""
    return decode(encode(message), type(message))
