"""Asking the scheduler: a request is put on disk first, the answer comes to an inbox.

Answers can be lost, requests can't. So an unanswered request is put again, under the same request id, which
makes the repeat harmless; and whoever gives up in the end knows whether it is still going to be decided.
"""

import asyncio
from contextlib import suppress

from msgspec import structs

from gpuyard.bus.port import Bus, Subscription
from gpuyard.contracts import ids
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure, Unavailable, error_from
from gpuyard.contracts.request import Accepted, Cancel, Reply, Submit
from gpuyard.contracts.subjects import REQUEST
from gpuyard.telemetry import traces

AGAIN_AFTER_S = 3.0


async def ask(bus: Bus, request: Submit | Cancel, *, timeout_s: float) -> Accepted:
    """Put a request to the scheduler and wait for its decision.

    Raises:
        Refused, Conflict, NotFound, InvalidSpec: as decided.
        Unavailable: nobody answered in time; the message says whether the request is recorded.

    """
    recorded = False
    inbox = bus.new_inbox()
    payload = encode(structs.replace(request, reply_to=inbox))
    try:
        async with asyncio.timeout(timeout_s), bus.subscribe(inbox) as answers:
            while True:
                recorded = await _put(bus, request, payload) or recorded
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_AFTER_S):
                        return await _decision(answers)
    except TimeoutError:
        raise _unanswered(request, recorded) from None


async def _put(bus: Bus, request: Submit | Cancel, payload: bytes) -> bool:
    """Record the request; False if that is uncertain."""
    kind = type(request).__struct_config__.tag
    try:
        await bus.append(REQUEST(kind=kind), payload, headers=traces.headers(), timeout_s=AGAIN_AFTER_S)
    except Unavailable:
        return False
    return True


async def _decision(answers: Subscription) -> Accepted:
    reply: Reply = decode((await anext(answers)).payload, Reply)
    if isinstance(reply, Failure):
        raise error_from(reply)
    return reply


def _unanswered(request: Submit | Cancel, recorded: bool) -> Unavailable:
    job = request.job if isinstance(request, Cancel) else ids.job_id(request.spec.name, request.request_id)
    if recorded:
        return Unavailable(
            "no scheduler answered; the request is recorded and will be decided when one is back",
            f"See `gpuyard show {job}` then.",
            job=job,
            request_id=request.request_id,
        )
    return Unavailable(
        "the message bus can't be reached; whether the request was recorded is unknown",
        f"Try again with the same request id, {request.request_id}: a repeat changes nothing.",
        job=job,
        request_id=request.request_id,
    )
