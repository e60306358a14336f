"""The generated documents describe real messages, and every reference in them leads somewhere."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from gpuyard.contracts.asyncapi import asyncapi, channel_id
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.render import messages_page
from gpuyard.contracts.schema import Schema, document, message_types, messages_schema
from gpuyard.contracts.subjects import CHANNELS, STREAMS
from tests.unit.contracts.examples import EXAMPLES

API = asyncapi("1.2.3")
SCHEMA = messages_schema()


def values_of(key: str, tree: Any) -> Iterator[Any]:
    """Every value under this key, at any depth."""
    if isinstance(tree, dict):
        if key in tree:
            yield tree[key]
        for inner in tree.values():
            yield from values_of(key, inner)
    elif isinstance(tree, list):
        for inner in tree:
            yield from values_of(key, inner)


def resolve(document: Any, reference: str) -> Any:
    """Follow `#/a/b`; raises KeyError where it leads nowhere."""
    assert reference.startswith("#/")
    for step in reference.removeprefix("#/").split("/"):
        document = document[step]
    return document


@pytest.mark.parametrize(
    "tree", [API, SCHEMA, document(message_types()["Job"], "Job")], ids=["api", "all", "job"]
)
def test_every_reference_resolves(tree: Schema) -> None:
    references = [value for value in values_of("$ref", tree) if isinstance(value, str)]

    assert references
    for reference in references:
        assert resolve(tree, reference)


def test_every_message_and_field_is_described() -> None:
    for name, kind in message_types().items():
        schema = SCHEMA["$defs"][name]
        assert schema["description"]
        fields = {field.encode_name for field in msgspec.structs.fields(kind)}
        assert fields <= set(schema["properties"])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_schemas_accept_real_messages(example: msgspec.Struct) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = SCHEMA | {"$ref": f"#/$defs/{type(example).__name__}"}
    validator = jsonschema.Draft202012Validator(schema)
    travelled = decode(encode(example), type(example))

    validator.check_schema(schema)
    validator.validate(json.loads(msgspec.json.encode(travelled)))


@pytest.mark.parametrize(
    "change", [{"request_id": "a/b"}, {"request_id": "a\n"}, {"spec": {"tasks": []}}, {"type": "explode"}]
)
def test_schemas_refuse_what_the_codec_refuses(change: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    (submit,) = (json.loads(msgspec.json.encode(e)) for e in EXAMPLES if type(e).__name__ == "Submit")

    validator = jsonschema.Draft202012Validator(SCHEMA | {"$ref": "#/$defs/Submit"})

    assert validator.is_valid(submit)
    assert not validator.is_valid(submit | change)


def test_what_json_cannot_say_is_noted() -> None:
    chunk = SCHEMA["$defs"]["LogChunk"]["prefixItems"]

    assert [item["title"] for item in chunk] == ["stream", "at_s", "data"]
    assert chunk[2]["x-msgpack"].startswith("bin")
    assert SCHEMA["$defs"]["Rejected"]["properties"]["payload"]["x-msgpack"].startswith("bin")
    assert "x-msgpack" not in SCHEMA["$defs"]["JobSpec"]["properties"]["labels"]


def test_asyncapi_has_what_the_standard_requires() -> None:
    assert API["asyncapi"] == "3.0.0"
    assert (API["info"]["title"], API["info"]["version"]) == ("Gpuyard", "1.2.3")
    for operation in API["operations"].values():
        assert operation["action"] in ("send", "receive")
        channel = resolve(API, operation["channel"]["$ref"])
        for message in operation["messages"]:
            assert resolve(API, message["$ref"]) in channel["messages"].values()
    for channel in API["channels"].values():
        named = {part[1:-1] for part in (channel["address"] or "").split(".") if part.startswith("{")}
        assert named == set(channel.get("parameters", {}))


def test_asyncapi_has_every_channel_stream_and_message() -> None:
    addresses = {channel["address"] for channel in API["channels"].values()}

    assert {channel.pattern for channel in CHANNELS} <= addresses
    assert len({channel_id(channel) for channel in CHANNELS}) == len(CHANNELS)
    assert set(API["x-streams"]) == {stream.name for stream in STREAMS}
    assert set(API["components"]["messages"]) == set(message_types())


def test_clients_send_what_clients_write() -> None:
    sent = {name for name, operation in API["operations"].items() if operation["action"] == "send"}

    assert sent == {"request", "figures", "query-history", "query-logs", "query-pin", "query-series"}
    assert API["operations"]["request"]["reply"]["address"] == {"location": "$message.payload#/reply_to"}
    assert "address" not in API["operations"]["query-logs"]["reply"]


def test_the_page_names_everything() -> None:
    page = messages_page()

    for channel in CHANNELS:
        assert f"`{channel.pattern}`" in page
    for stream in STREAMS:
        assert f"| `{stream.name}` |" in page
    for name in SCHEMA["$defs"]:
        assert f"\n### {name}\n" in page


def test_links_of_the_page_lead_to_its_headings() -> None:
    page = messages_page()
    headings = {line.removeprefix("### ").lower() for line in page.splitlines() if line.startswith("### ")}
    links = {part.partition(")")[0] for part in page.split("](#")[1:]}

    assert links
    assert links <= headings


def test_rows_of_the_page_have_as_many_cells_as_their_heads() -> None:
    for table in messages_page().split("\n\n"):
        rows = [row.replace("\\|", "").count("|") for row in table.splitlines() if row.startswith("|")]
        assert len(set(rows)) <= 1, table
