"""What clients and loggers ask of the scheduler, and its answers. Imperative: any of them can be refused.

A request is appended to the REQUESTS stream; the answer goes to `reply_to`, a subject of the client's choice.
Repeating a request with the same `request_id` changes nothing and is answered again.
"""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.errors import Failure
from gpuyard.contracts.hardware import Seconds
from gpuyard.contracts.ids import JobId, Name, RequestId
from gpuyard.contracts.job import JobSpec, JobState
from gpuyard.contracts.log import Rank
from gpuyard.contracts.log_rule import LogAction

ReplyTo = Annotated[
    str,
    Meta(
        pattern=r"^(_INBOX[A-Za-z0-9_.-]{1,200})?$(?!\n)",
        description="Inbox for the answer; empty if none is wanted.",
    ),
]


class Submit(Struct, frozen=True, tag="submit", tag_field="type"):
    """Run this job."""

    request_id: RequestId
    spec: JobSpec
    reply_to: ReplyTo = ""


class Cancel(Struct, frozen=True, tag="cancel", tag_field="type"):
    """Stop this job for good. Cancelling a cancelled job succeeds."""

    request_id: RequestId
    job: JobId
    reply_to: ReplyTo = ""


class Finding(Struct, frozen=True, tag="finding", tag_field="type"):
    """Note that a rank printed a line that a log rule looks for. From loggers, the first of an attempt."""

    request_id: RequestId
    job: JobId
    attempt: Annotated[int, Meta(ge=1)]
    rank: Rank
    rule: Name
    action: LogAction
    message: Annotated[str, Meta(max_length=200, description="What the line means, for people.")]
    line: Annotated[str, Meta(max_length=500, description="The line, or the part around what was found.")]
    at_s: Seconds
    reply_to: ReplyTo = ""


Request = Submit | Cancel | Finding


class Accepted(Struct, frozen=True, tag="accepted", tag_field="type"):
    """The request is granted and on disk."""

    job: JobId
    state: JobState


Reply = Accepted | Failure
