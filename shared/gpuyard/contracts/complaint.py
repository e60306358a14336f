"""Why a message or a job file was refused, in words: msgspec names the constraint, people need the rule.

Pure. The place is kept, because a client in another language finds its mistake by it.
"""

import re
from typing import Any, NamedTuple, get_args

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.ids import GPU_ID_PATTERN, ID_PATTERN, slug
from gpuyard.contracts.job import EnvName, Text

_UNKNOWN = object()
"""Stands for a value that can't be told from its place."""
_WIDEST_VALUE = 80

_COMPLAINT = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$\.?(?P<place>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"(?P<key>[^.\[\]]+)|\[(?P<index>[^\]]+)\]")
_LIMIT = re.compile(r"Expected `\w+`(?P<length> of length)? (?P<sign>>=|<=|>) (?P<limit>\S+)")
_PATTERN = re.compile(r"Expected `str` matching regex (?P<quoted>'.*')", re.DOTALL)
_TYPE = re.compile(r"Expected `(?P<types>[^`]+)`, got `\w+`")
_MISSING = re.compile(r"Object missing required field (?P<field>`.*`)")

_SIGNS = {">=": "at least", "<=": "at most", ">": "more than"}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a table of keys and values",
}
_RULES = {
    ID_PATTERN: "a name has lower-case letters, digits and dashes, at most 63",
    GPU_ID_PATTERN: "a GPU's id has letters, digits, dashes and slashes, at most 128",
    get_args(EnvName)[1].pattern: "a variable's name has letters, digits and underscores, no digit first",
    get_args(Text)[1].pattern: "it can't hold NUL",
}
_QUOTED = {repr(pattern): pattern for pattern in _RULES}
_HINTS = {
    "gpus": "Give the GPUs of all ranks together, 0 to 65536.",
    "ranks": "Give 1 to 65536, or leave it out: then there is one rank for each GPU.",
    "priority": "Give -1000 to 1000; higher goes first.",
    "env": "Write variables like `SEED=1`.",
    "grace_s": "Give 0 to 86400 seconds.",
    "launch_deadline_s": "Give more than 0, at most 86400 seconds.",
}


class _Complaint(NamedTuple):
    what: str
    place: str
    value: Any
    is_key: bool
    """The value is a key of the table at that place."""


def complaint(error: Exception, data: object = _UNKNOWN) -> InvalidSpec:
    """Say what is wrong with data that msgspec refused.

    Args:
        error: What msgspec raised.
        data: What was refused, as plain data; so that the wrong value can be shown.

    """
    found = _read(str(error), data)
    details = {"place": f"$.{found.place}"} if found.place else {}
    return InvalidSpec(_message(found), _hint(found), **details)


def _read(text: str, data: object) -> _Complaint:
    match = _COMPLAINT.fullmatch(text)
    assert match, "every text matches"
    what, place = match["what"], match["place"] or ""
    value = _value(data, place)
    if match["key"]:
        return _Complaint(what, place, _wrong_key(what, value), is_key=True)
    return _Complaint(what, place, value, is_key=False)


def _message(found: _Complaint) -> str:
    rule = _rule(found.what)
    if not rule:
        what = f"{found.what[:1].lower()}{found.what[1:]}"
        return f"`{found.place}`: {what}" if found.place else what
    place = f"`{found.place}`" if found.place else "the message"
    shown = _shown(found.value)
    if found.is_key:
        return f"a key of {place}{shown and f', {shown}'}: {rule}"
    return f"{place}{shown and f' is {shown}'}: {rule}"


def _rule(what: str) -> str:
    """The violated constraint in words; empty if there are no better ones than msgspec's."""
    if limit := _LIMIT.fullmatch(what):
        verb = "have a length of" if limit["length"] else "be"
        return f"it must {verb} {_SIGNS[limit['sign']]} {limit['limit'].removesuffix('.0')}"
    if pattern := _PATTERN.fullmatch(what):
        known = _QUOTED.get(pattern["quoted"])
        return _RULES[known] if known else f"it does not match {pattern['quoted']}"
    if types := _TYPE.fullmatch(what):
        wanted = (one for one in types["types"].split(" | ") if one != "null")
        return f"it must be {' or '.join(_TYPES.get(one, one) for one in wanted)}"
    if missing := _MISSING.fullmatch(what):
        return f"its field {missing['field']} is missing"
    return ""


def _hint(found: _Complaint) -> str:
    if repr(ID_PATTERN) in found.what and isinstance(found.value, str):
        return f"Try `{slug(found.value)}`."
    return _HINTS.get(_field(found.place), "")


def _shown(value: object) -> str:
    """The wrong value; empty if it is unknown, long, or a whole structure."""
    if not isinstance(value, str | int | float):
        return ""
    text = f"`{repr(value)[1:-1]}`" if isinstance(value, str) else repr(value)
    return text if len(text) <= _WIDEST_VALUE else ""


def _value(data: object, place: str) -> Any:
    for step in _STEP.finditer(place):
        try:
            data = data[step["key"] or int(step["index"])]  # type: ignore[index]
        except (TypeError, ValueError, LookupError):  # `[...]` stands for some value of a map
            return _UNKNOWN
    return data


def _wrong_key(what: str, table: object) -> Any:
    """The key that the complaint is about; msgspec does not tell which it is."""
    pattern = _PATTERN.fullmatch(what)
    known = _QUOTED.get(pattern["quoted"]) if pattern else None
    if known is None or not isinstance(table, dict):
        return _UNKNOWN
    return next((key for key in table if isinstance(key, str) and not re.search(known, key)), _UNKNOWN)


def _field(place: str) -> str:
    keys = [step["key"] for step in _STEP.finditer(place) if step["key"]]
    return keys[-1] if keys else ""
