"""Pins: output that is kept, whatever the rules of the loggers say."""

import asyncio

from gpuyard.bus.port import Bus, From
from gpuyard.contracts.codec import decode, encode, validated
from gpuyard.contracts.errors import Failure, InvalidSpec, Unavailable, error_from
from gpuyard.contracts.log import partition_of
from gpuyard.contracts.segment import Pin, Pinned, PinRequest
from gpuyard.contracts.subjects import PIN, PIN_REQUEST, SEGMENTS_STREAM

_ANSWER_S = 3.0
_PAUSE_S = 0.25


async def put(bus: Bus, job: str, *, pinned: bool, by: str, timeout_s: float) -> None:
    """Pin a job's output, or unpin it. When this returns, that is on disk.

    Raises:
        NotFound: it is no longer kept.
        Unavailable: no logger answers in time; a repeat changes nothing.

    """
    request = encode(validated(PinRequest(job, pinned, by)))
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    return await _ask(bus, job, request)
                except Unavailable:  # the job's partition may be on its way to another logger
                    await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        raise Unavailable(
            f"no logger answers for the output of {job}",
            "`gpuyard doctor` looks for what is missing.",
            job=job,
        ) from None


async def everything(bus: Bus) -> list[Pin]:
    """All pins, the oldest first."""
    pins = []
    async with bus.read(SEGMENTS_STREAM, PIN.all, start=From.LAST_PER_SUBJECT) as reader:
        while reader.backlog:
            message = await anext(reader)
            try:
                pins.append(decode(message.payload, Pin))
            except InvalidSpec:
                continue  # the logger sets it aside
    return sorted(pins, key=lambda pin: (pin.at_s, pin.job))


async def _ask(bus: Bus, job: str, request: bytes) -> None:
    subject = PIN_REQUEST(partition=partition_of(job))
    answer: Pinned | Failure = decode(
        (await bus.request(subject, request, timeout_s=_ANSWER_S)).payload, Pinned | Failure
    )
    if isinstance(answer, Failure):
        raise error_from(answer)
