"""JSON Schema of everything that travels, derived from the structs: what a backend in any language needs.

The schemas describe messages as JSON shows them. The wire is MessagePack, which knows one thing that JSON
does not: bytes. Where they occur, the keyword `x-msgpack` says so.
"""

from collections.abc import Iterable, Iterator
from inspect import cleandoc
from typing import Any, get_args

import msgspec
from msgspec import inspect

from gpuyard.contracts.subjects import CHANNELS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Schema = dict[str, Any]


def members(payload: Any) -> tuple[type[msgspec.Struct], ...]:
    """The structs that a channel's payload may be: those of the union, or the one."""
    return () if payload is None else get_args(payload) or (payload,)


def message_types() -> dict[str, type[msgspec.Struct]]:
    """Every struct that is a message by itself, by name, in the order of the channels."""
    return {
        kind.__name__: kind
        for channel in CHANNELS
        for kind in (*members(channel.payload), *members(channel.answer))
    }


def definitions(kinds: Iterable[Any], ref: str = "#/$defs/") -> dict[str, Schema]:
    """Schemas of these types and of every type inside them, by name; `ref` is where the result will stand."""
    kinds = tuple(kinds)
    _, schemas = msgspec.json.schema_components(kinds, ref_template=ref + "{name}")
    for schema in schemas.values():
        schema["description"] = cleandoc(schema.get("description", ""))
        _note_bytes(schema)
    for struct in _structs(inspect.multi_type_info(kinds)):
        _name_items(schemas[struct.cls.__name__], struct)
    return schemas


def messages_schema() -> Schema:
    """One document with every message: refer to `#/$defs/<name>`."""
    return {
        "$schema": DIALECT,
        "title": "Gpuyard messages",
        "description": "Everything that travels between services and clients, each under `$defs`.",
        "$defs": definitions(message_types().values()),
    }


def document(kind: type[msgspec.Struct], title: str) -> Schema:
    """A document that describes one type, for editors and validators."""
    return {
        "$schema": DIALECT,
        "title": title,
        "$ref": f"#/$defs/{kind.__name__}",
        "$defs": definitions([kind]),
    }


def _note_bytes(schema: Any) -> None:
    if isinstance(schema, dict):
        if schema.get("contentEncoding") == "base64":
            schema["x-msgpack"] = "bin: raw bytes, not base64 text"
        for inner in schema.values():
            _note_bytes(inner)
    elif isinstance(schema, list):
        for inner in schema:
            _note_bytes(inner)


def _name_items(schema: Schema, struct: inspect.StructType) -> None:
    """A struct that travels as an array has no field names on the wire; readers want them all the same."""
    for item, field in zip(schema.get("prefixItems", ()), struct.fields, strict=False):
        item["title"] = field.encode_name


def _structs(info: object) -> Iterator[inspect.StructType]:
    """Every struct inside a description of types, at any depth."""
    if isinstance(info, inspect.StructType):
        yield info
    parts: Iterable[object] = info if isinstance(info, tuple | list) else ()
    if isinstance(info, inspect.Type | inspect.Field):
        parts = [getattr(info, name) for name in info.__struct_fields__]
    for part in parts:
        yield from _structs(part)
