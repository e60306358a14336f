"""Who leads: the scheduler's term (a fence that never expires) and its sign of life (which does)."""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Seconds


class Term(Struct, frozen=True):
    """Start of a reign. Its sequence in the stream is the term number and the fence of every write."""

    owner: str
    nonce: Annotated[str, Meta(description="Random; tells two reigns apart even if sequences repeat.")]
    at_s: Seconds


class Leader(Struct, frozen=True):
    """The leader is alive."""

    owner: str
    nonce: str
    term: Annotated[int, Meta(ge=0)]
    at_s: Seconds
