"""Messages that a service could not read."""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Seconds


class Rejected(Struct, frozen=True):
    """A message that was set aside: it changed nothing."""

    service: str
    subject: str
    error: Annotated[str, Meta(description="Why it can't be read.")]
    payload: Annotated[bytes, Meta(max_length=65536, description="Its first 64 KiB.")]
    size_bytes: Annotated[int, Meta(ge=0)]
    at_s: Seconds
