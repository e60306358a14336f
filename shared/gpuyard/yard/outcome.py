"""How `gpuyard up --detach` hears from the process it leaves behind: one JSON on a pipe."""

import os

import msgspec
from msgspec import Struct

from gpuyard.client.locate import RunningService
from gpuyard.contracts.errors import Failure, Fault, GpuyardError, error_from


class RunningYard(Struct, frozen=True):
    """A yard as `gpuyard up --json` shows it: without its token."""

    dir: str
    pid: int
    address: str
    services: dict[str, RunningService]


class Ready(Struct, frozen=True, tag="ready", tag_field="type"):
    """Everything runs."""

    yard: RunningYard
    summary: str


def tell(descriptor: int | None, outcome: Ready | GpuyardError) -> None:
    """Say it once; nobody may be listening."""
    if descriptor is None:
        return
    told = outcome.to_failure() if isinstance(outcome, GpuyardError) else outcome
    try:
        os.write(descriptor, msgspec.json.encode(told))
    except BrokenPipeError:
        pass  # whoever started us has gone; the yard runs nevertheless
    finally:
        os.close(descriptor)


def hear(data: bytes, log: object) -> Ready:
    """Read what was told.

    Raises:
        GpuyardError: what went wrong there; a Fault if it ended without a word.

    """
    if not data:
        raise Fault("the yard ended before it was ready, without a word", f"The whole story is in {log}.")
    outcome: Ready | Failure = msgspec.json.decode(data, type=Ready | Failure)
    if isinstance(outcome, Failure):
        raise error_from(outcome)
    return outcome
