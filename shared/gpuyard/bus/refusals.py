"""What both buses say when something can't be done."""

from gpuyard.bus.port import Expect
from gpuyard.contracts.errors import Conflict, InvalidSpec, Unavailable
from gpuyard.contracts.subjects import Stream


class NoStream(Unavailable):
    """The stream was not created yet."""


def no_stream(name: str) -> NoStream:
    return NoStream(f"there is no stream {name}", "Create it with `ensure` first.", stream=name)


def no_stream_for(subject: str) -> Unavailable:
    return Unavailable(f"no stream takes `{subject}`", "Create one with `ensure` first.", subject=subject)


class Full(Unavailable):
    """The stream is at its limit; nothing was written."""


def full(stream: str) -> Full:
    return Full(
        f"stream {stream} is full", "Wait until it is worked off, or raise its `max_bytes`.", stream=stream
    )


def conflict(expect: Expect) -> Conflict:
    """Someone wrote first, or the fence moved; nothing was written."""
    return Conflict(f"`{expect.subject}` is not at sequence {expect.seq}", "Read it again, then decide.")


def lost_data(stream: str, read_seq: int, last_seq: int) -> Conflict:
    """A reader's stream is behind what was read."""
    return Conflict(
        f"stream {stream} ends at sequence {last_seq}, but {read_seq} was read before: the server lost data",
        "Read everything anew.",
        stream=stream,
    )


def nobody_answers(subject: str) -> Unavailable:
    return Unavailable(f"nobody answers on `{subject}`", "Is the service running?", subject=subject)


def no_answer(subject: str, timeout_s: float) -> Unavailable:
    return Unavailable(f"no answer on `{subject}` within {timeout_s:g} s", "Try again.", subject=subject)


def refuse_to_read_queue(stream: Stream) -> None:
    """A queue's messages leave when they are acknowledged: there is nothing to read in order."""
    if stream.kind == "work":
        raise InvalidSpec(f"stream {stream.name} is a work queue", "Use `work` instead of `read`.")
