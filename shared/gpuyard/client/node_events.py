"""Reading what happened to nodes and GPUs, as their monitors recorded it."""

from collections.abc import AsyncGenerator
from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.bus.port import Bus, From, Message
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import Conflict, InvalidSpec
from gpuyard.contracts.ids import is_id
from gpuyard.contracts.node_event import NodeEvent
from gpuyard.contracts.subjects import NODE_EVENT, NODE_EVENTS_STREAM


class RecordedNodeEvent(Struct, frozen=True):
    """Something that happened to a node, with its place among all: `after=seq` goes on behind it."""

    seq: int
    node: str
    gpu: Annotated[str | None, Meta(description="The GPU it is about; None: the whole node.")]
    kind: str
    at_s: float
    message: str


async def read(
    bus: Bus, node: str | None, *, after: int, live: bool
) -> AsyncGenerator[RecordedNodeEvent, None]:
    """What happened, in order; for ever if `live`.

    Raises:
        InvalidSpec: that can't be a node.

    """
    if node is not None and not is_id(node):
        raise InvalidSpec(f"`{node[:80]}` can't be a node", "`gpuyard nodes` lists the nodes.")
    subject = NODE_EVENT.all if node is None else NODE_EVENT(node=node)
    start: From | int = after + 1 if after else From.FIRST
    has_read = False
    while True:
        try:
            async with bus.read(NODE_EVENTS_STREAM, subject, start=start) as reader:
                while live or reader.backlog:
                    event = _recorded(await anext(reader))
                    has_read = True
                    if event is not None:
                        yield event
            return
        except Conflict:
            if has_read or not after:
                raise
            # `after` is beyond the end: only what comes later can be wanted.
            start = From.NEW


def _recorded(message: Message) -> RecordedNodeEvent | None:
    """None if it can't be read: one bad record must not hide the others."""
    try:
        event = decode(message.payload, NodeEvent)
    except InvalidSpec:
        return None
    return RecordedNodeEvent(message.seq, event.node, event.gpu, event.kind, event.at_s, event.message)
