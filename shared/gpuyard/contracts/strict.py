"""Refuse keys nobody knows, naming the nearest known one.

Readers of records skip unknown fields, so that an old reader understands a new writer. What a *person* wrote
(a job file, a request's spec) is checked strictly instead: a misspelt key must not be ignored.
"""

import difflib
from functools import cache
from typing import Any

from msgspec import inspect

from gpuyard.contracts.errors import InvalidSpec


def check_keys(data: object, kind: Any) -> None:
    """Check that every key in plain `data` is a field of `kind`, at any depth.

    Raises:
        InvalidSpec: names the first unknown key, its place and the nearest known key.
    """
    _check(data, _type_info(kind), "")


_type_info = cache(inspect.type_info)


def _check(data: object, info: inspect.Type, path: str) -> None:
    for option in _options(info):
        if isinstance(option, inspect.StructType) and isinstance(data, dict):
            _check_struct(data, option, path)
        elif isinstance(option, inspect.VarTupleType) and isinstance(data, list | tuple):
            for index, item in enumerate(data):
                _check(item, option.item_type, f"{path}[{index}]")


def _options(info: inspect.Type) -> tuple[inspect.Type, ...]:
    while isinstance(info, inspect.Metadata):
        info = info.type
    return info.types if isinstance(info, inspect.UnionType) else (info,)


def _check_struct(data: dict[Any, Any], info: inspect.StructType, path: str) -> None:
    fields = {field.encode_name: field.type for field in info.fields}
    for key, value in data.items():
        if key == info.tag_field:
            continue
        if key not in fields:
            raise unknown_key(str(key), fields, path)
        _check(value, fields[key], f"{path}.{key}".lstrip("."))


def unknown_key(key: str, known: Any, path: str = "") -> InvalidSpec:
    """The error for a key that is not among the known ones."""
    near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.5)
    where = f" in `{path}`" if path else ""
    hint = f"Did you mean `{near[0]}`?" if near else f"Known keys: {', '.join(sorted(known))}."
    return InvalidSpec(f"unknown key `{key}`{where}", hint, key=key)
