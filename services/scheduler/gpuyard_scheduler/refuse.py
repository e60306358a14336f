"""Answering clients whose request can't even be read, as far as their inbox can be made out."""

import re
from collections.abc import Mapping

import msgspec

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.service import Context

_INBOX = re.compile(r"_INBOX[A-Za-z0-9_.-]{1,200}")


async def refuse_unreadable(context: Context, message: Message, error: InvalidSpec) -> None:
    """Set a request aside and tell its sender why. Never raises."""
    await set_aside(context, message, error)
    if inbox := inbox_of(message.payload):
        try:
            await context.bus.publish(inbox, encode(error.to_failure()))
        except GpuyardError as failure:
            context.log.warning("refusal not delivered", error=str(failure))


def inbox_of(payload: bytes) -> str:
    """The answer's subject in a request that is otherwise unreadable; empty if there is none."""
    try:
        request = msgspec.msgpack.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return ""
    inbox = request.get("reply_to") if isinstance(request, Mapping) else None
    return inbox if isinstance(inbox, str) and _INBOX.fullmatch(inbox) else ""
