"""The contracts as pages for people: subjects, streams, fields and errors in tables of Markdown.

Rendered from the same schemas that machines get, so that both always say the same.
"""

import json
from collections.abc import Iterable, Iterator

from gpuyard.contracts import errors
from gpuyard.contracts.codec import MAX_MESSAGE_BYTES
from gpuyard.contracts.errors import Failure, GpuyardError
from gpuyard.contracts.ids import ID_PATTERN
from gpuyard.contracts.schema import Schema, definitions, members, message_types
from gpuyard.contracts.subjects import CHANNELS, STREAMS, Stream

_UNITS = {"_gb_s": "GB/s", "_bytes": "bytes", "_s": "s", "_w": "W", "_c": "°C"}
_NOTICE = "<!-- Generated: change the contracts and run `make docs`. -->"
_SIMPLE_TYPES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "null": "nil",
}


def messages_page() -> str:
    """Every subject, stream and message."""
    return "\n".join([*_messages_intro(), *_subjects(), *_streams(), *_payloads(), ""])


def errors_page() -> str:
    """Every error: its code, its exit code, and its form on the wire."""
    return "\n".join([*_errors_intro(), *_error_codes(), *_other_exit_codes(), *_failure(), ""])


def error_kinds() -> tuple[type[GpuyardError], ...]:
    """The kinds of error, in order of their exit codes."""
    found = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = [kind for kind in found if issubclass(kind, GpuyardError) and kind is not GpuyardError]
    return tuple(sorted(kinds, key=lambda kind: kind.exit_code))


def _errors_intro() -> list[str]:
    return [
        "# Errors",
        "",
        _NOTICE,
        "",
        "Every refusal says what happened, why, and what to do next. Rely on the code: sentences may change.",
        "",
    ]


def _error_codes() -> list[str]:
    rows = [
        (f"`{kind.code}`", str(kind.exit_code), "yes" if kind.retryable else "no", _first_line(kind))
        for kind in error_kinds()
    ]
    return _table(("Code", "Exit code of `gpuyard`", "May succeed later", "Meaning"), rows)


def _other_exit_codes() -> list[str]:
    return [
        "",
        "`gpuyard run` exits with the job's own code. The others: 0 done, 1 the job failed without a code of",
        "its own, 124 the wait timed out, 130 interrupted.",
    ]


def _failure() -> list[str]:
    return ["", "## On the wire and with `--json`", "", *_fields(definitions([Failure])["Failure"])]


def _messages_intro() -> list[str]:
    return [
        "# Messages",
        "",
        _NOTICE,
        "",
        "Messages are MessagePack maps with the field names below. A field with a default may be left out.",
        "Fields are only ever added: skip those you do not know.",
        f"A message has at most {MAX_MESSAGE_BYTES:,} bytes. The header `traceparent` carries the trace.",
        f"An *id* is lower-case letters, digits and dashes: `{ID_PATTERN}`.",
        "",
        "For machines: [messages.schema.json](messages.schema.json) and [asyncapi.json](asyncapi.json).",
        "",
    ]


def _subjects() -> list[str]:
    rows = [
        (
            f"`{channel.pattern}`",
            channel.writer,
            _kinds(channel.payload),
            _kinds(channel.answer),
            channel.stream.name if channel.stream else "",
            channel.purpose,
        )
        for channel in CHANNELS
    ]
    head = ("Subject", "Written by", "Message", "Answer", "Stream", "Purpose")
    note = "`{name}` stands for one id. Subjects without a stream are not stored."
    return ["## Subjects", "", note, "", *_table(head, rows), ""]


def _streams() -> list[str]:
    rows = [
        (
            f"`{stream.name}`",
            ", ".join(f"`{subject}`" for subject in stream.subjects),
            "work queue" if stream.kind == "work" else "log",
            _kept(stream),
            stream.when_full.replace("_", " "),
            stream.purpose,
        )
        for stream in STREAMS
    ]
    head = ("Stream", "Subjects", "Kind", "Keeps", "When full", "Purpose")
    note = "A work queue drops a message once it is acknowledged; a log keeps it until it is trimmed."
    return ["## Streams", "", note, "", *_table(head, rows), ""]


def _kept(stream: Stream) -> str:
    limits = [f"{stream.max_bytes / 1024**2:,.0f} MiB"]
    if stream.per_subject is not None:
        limits.append(f"newest {stream.per_subject:,} of each subject")
    if stream.max_age_s is not None:
        limits.append(f"{stream.max_age_s / 86400:g} days")
    return ", ".join(limits)


def _payloads() -> Iterator[str]:
    yield "## Fields"
    schemas = definitions(message_types().values())
    for name, schema in sorted(schemas.items()):
        yield from ("", f"### {name}", "", schema["description"], "")
        yield from _seen_on(name)
        if "enum" in schema:
            yield "One of: " + ", ".join(f"`{value}`" for value in schema["enum"]) + "."
        else:
            yield from _fields(schema)


def _seen_on(name: str) -> Iterator[str]:
    """Where a message of this type is seen."""
    subjects = [f"`{channel.pattern}`" for channel in CHANNELS if name in _names(channel.payload)]
    if subjects:
        yield from (f"Subject: {', '.join(subjects)}.", "")


def _fields(schema: Schema) -> list[str]:
    if "prefixItems" in schema:
        named = [(item["title"], item) for item in schema["prefixItems"]]
        intro = ["An array of these, in this order:", ""]
    else:
        named, intro = list(schema.get("properties", {}).items()), []
    required = schema.get("required", [name for name, _ in named])
    rows = [_field(name, field, name in required) for name, field in named]
    return intro + _table(("Field", "Type", "Unit and range", "Default", "Meaning"), rows)


def _field(name: str, field: Schema, required: bool) -> tuple[str, ...]:
    return (
        f"`{name}`",
        _type(field),
        ", ".join(filter(None, [_unit(name), _limits(field)])),
        "required" if required else _default(field["default"]),
        _meaning(field),
    )


def _default(value: object) -> str:
    return "its own defaults" if value and isinstance(value, dict) else f"`{json.dumps(value)}`"


def _type(field: Schema) -> str:
    if "$ref" in field:
        return _link(field["$ref"].rpartition("/")[2])
    if "anyOf" in field:
        return " or ".join(_type(option) for option in field["anyOf"])
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "prefixItems" in field:
        return f"[{', '.join(_type(item) for item in field['prefixItems'])}]"
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    if field["type"] == "object":
        return f"map of text to {_type(field['additionalProperties'])}"
    return "bytes" if "contentEncoding" in field else _SIMPLE_TYPES[field["type"]]


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "")


_LIMITS = {
    "minimum": "at least {:,}",
    "exclusiveMinimum": "more than {:,}",
    "maximum": "at most {:,}",
    "minItems": "at least {:,} entries",
    "maxItems": "at most {:,} entries",
    "maxProperties": "at most {:,} entries",
    "maxLength": "at most {:,} long",
    "pattern": "`{}`",
}


def _limits(field: Schema) -> str:
    options = [field, *field.get("anyOf", ())]
    words = [text.format(option[key]) for option in options for key, text in _LIMITS.items() if key in option]
    return ", ".join(words).replace(f"`{ID_PATTERN}`", "id")


def _meaning(field: Schema) -> str:
    options = [field, *field.get("anyOf", ())]
    return next((option["description"] for option in options if "description" in option), "")


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").splitlines()[0]


def _names(payload: object) -> list[str]:
    return [kind.__name__ for kind in members(payload)]


def _kinds(payload: object) -> str:
    return ", ".join(_link(name) for name in _names(payload))


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
