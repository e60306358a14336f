"""A message nobody can read is set aside: counted, logged, kept for inspection. It never stops a service."""

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.rejected import Rejected
from gpuyard.contracts.subjects import REJECTED
from gpuyard.runtime.service import Context

KEPT_BYTES = 65536


async def set_aside(context: Context, message: Message, error: Exception) -> None:
    """Count, log and keep an unreadable message. Never raises: the queue behind it must move on."""
    family = ".".join(message.subject.split(".")[:2])
    context.metrics.counter(
        "gpuyard_rejected_total", "Messages that could not be read.", ("subject",)
    ).labels(family).inc()
    context.log.warning(
        "message set aside", subject=message.subject, error=str(error), bytes=len(message.payload)
    )
    kept = Rejected(
        context.name,
        message.subject,
        str(error)[:2000],
        message.payload[:KEPT_BYTES],
        len(message.payload),
        context.clock.now(),
    )
    try:
        await context.bus.append(REJECTED(stream=family.split(".")[-1]), encode(kept), timeout_s=2.0)
    except GpuyardError as failure:
        context.log.warning("message set aside is not kept", error=str(failure))
