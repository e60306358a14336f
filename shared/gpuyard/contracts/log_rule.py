"""What to do when a rank prints a certain line. Rules that are always there: docs/concepts/log-rules.md."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.ids import Name
from gpuyard.contracts.pattern import compiled_for_lines


class LogAction(StrEnum):
    """What follows when a line is found. Whatever it is, an event of the job tells of it."""

    EVENT = "event"
    NO_RETRY = "no_retry"
    SUSPECT_NODE = "suspect_node"
    IGNORE = "ignore"


class LogRule(Struct, frozen=True):
    """Look for a line in the output of ranks; found is what comes first in an attempt.

    A rule takes the place of one with the same name that comes before it: shipped, of the logger, of the job.
    """

    name: Name
    pattern: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=1024,
            description="Regular expression (RE2) within a line. One that begins with plain text is fast.",
            examples=[r"checkpoint is corrupt", r"grad_norm: (?:inf|[0-9]{5,})"],
        ),
    ]
    action: Annotated[
        LogAction,
        Meta(
            description="`event`: tell. `no_retry`: and never try the job again. `suspect_node`: and prefer "
            "other nodes. `ignore`: not even look for it."
        ),
    ] = LogAction.EVENT
    message: Annotated[
        str, Meta(max_length=200, description="What it means, for people; default: the rule's name.")
    ] = ""

    def __post_init__(self) -> None:
        try:
            compiled_for_lines(self.pattern)
        except InvalidSpec as error:
            raise ValueError(error.message) from error
