"""The AsyncAPI 3.0 document of the subjects, told from the side of a platform backend.

AsyncAPI describes one application: here it is a client. It sends what clients write and may receive the rest;
`x-writer` names who sends that. The NATS binding knows only queue groups, so streams, work queues and limits
stand in `x-` fields.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from gpuyard.contracts.codec import MAX_MESSAGE_BYTES
from gpuyard.contracts.log import PARTITIONS
from gpuyard.contracts.schema import Schema, definitions, members, message_types
from gpuyard.contracts.subjects import CHANNELS, STREAMS, Channel

CONTENT_TYPE = "application/vnd.msgpack"
_SCHEMA_FORMAT = "application/schema+json;version=draft-2020-12"
_PARAMETERS = {
    "attempt": "Attempt of the job, from 1.",
    "job": "Job id.",
    "kind": "The `type` of the request.",
    "logger": "Name of the logger.",
    "node": "Node id.",
    "partition": f"CRC-32 of the job's id, modulo {PARTITIONS}.",
    "rank": "Global rank, from 0.",
    "segment": "Name of the segment.",
    "stream": "Stream that the message came from.",
}


def asyncapi(version: str) -> dict[str, Any]:
    """The whole document; `version` is that of the contracts."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Gpuyard",
            "version": version,
            "description": "How a platform backend talks to Gpuyard over NATS. "
            "Fields are only ever added: skip those you do not know.",
        },
        "defaultContentType": CONTENT_TYPE,
        "channels": dict(_channels()),
        "operations": {channel_id(channel): _operation(channel) for channel in CHANNELS},
        "components": {
            "messages": {name: _message(name, kind) for name, kind in message_types().items()},
            "schemas": definitions(message_types().values(), ref="#/components/schemas/"),
        },
        "x-streams": {stream.name: asdict(stream) for stream in STREAMS},
        "x-max-message-bytes": MAX_MESSAGE_BYTES,
    }


def channel_id(channel: Channel) -> str:
    """Short name of a channel: its subject without the ids."""
    words = (word for word in channel.pattern.split(".")[1:] if not word.startswith("{"))
    return "-".join(words)


def parameters(channel: Channel) -> tuple[str, ...]:
    """Names of the ids in a channel's subject."""
    return tuple(word[1:-1] for word in channel.pattern.split(".") if word.startswith("{"))


def _channels() -> Iterator[tuple[str, Schema]]:
    for channel in CHANNELS:
        yield channel_id(channel), _channel(channel)
        if channel.answer is not None:
            yield _answer_id(channel), _answer_channel(channel)


def _channel(channel: Channel) -> Schema:
    described: Schema = {
        "address": channel.pattern,
        "description": channel.purpose,
        "messages": _message_refs(channel.payload),
        "parameters": {name: {"description": _PARAMETERS[name]} for name in parameters(channel)},
        "x-writer": channel.writer,
    }
    if channel.stream is not None:
        described["x-stream"] = channel.stream.name
    return described


def _answer_channel(channel: Channel) -> Schema:
    return {
        "address": None,
        "description": f"Answers to {channel.pattern}, sent to a subject of the asker's choice.",
        "messages": _message_refs(channel.answer),
    }


def _operation(channel: Channel) -> Schema:
    name = channel_id(channel)
    operation: Schema = {
        "action": "send" if channel.writer.startswith("clients") else "receive",
        "channel": {"$ref": f"#/channels/{name}"},
        "summary": channel.purpose,
        "messages": _operation_refs(name, channel.payload),
    }
    if channel.answer is not None:
        operation["reply"] = _reply(channel)
    return operation


def _reply(channel: Channel) -> Schema:
    """Where the answer goes: to a field of the request if it has one, else to NATS's own reply subject."""
    in_payload = all("reply_to" in kind.__struct_fields__ for kind in members(channel.payload))
    reply: Schema = {
        "channel": {"$ref": f"#/channels/{_answer_id(channel)}"},
        "messages": _operation_refs(_answer_id(channel), channel.answer),
    }
    if in_payload:
        reply["address"] = {"location": "$message.payload#/reply_to"}
    return reply


def _answer_id(channel: Channel) -> str:
    return f"{channel_id(channel)}-answer"


def _message_refs(payload: Any) -> Schema:
    names = [kind.__name__ for kind in members(payload)]
    return {name: {"$ref": f"#/components/messages/{name}"} for name in names}


def _operation_refs(channel: str, payload: Any) -> list[Schema]:
    return [{"$ref": f"#/channels/{channel}/messages/{kind.__name__}"} for kind in members(payload)]


def _message(name: str, kind: type) -> Schema:
    return {
        "name": name,
        "summary": (kind.__doc__ or "").splitlines()[0],
        "payload": {
            "schemaFormat": _SCHEMA_FORMAT,
            "schema": {"$ref": f"#/components/schemas/{name}"},
        },
    }
