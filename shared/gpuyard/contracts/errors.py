"""The error tree and its form on the wire: what happened, why, and what to do next."""

from typing import Annotated, ClassVar

from msgspec import Meta, Struct


class Failure(Struct, frozen=True, tag="failure", tag_field="type"):
    """A refused or failed request."""

    code: Annotated[str, Meta(description="Stable machine-readable code, for example `not_found`.")]
    message: Annotated[str, Meta(description="One sentence: what happened and why.")]
    hint: Annotated[str, Meta(description="What to do next.")] = ""
    retryable: Annotated[bool, Meta(description="Whether the same request may succeed later.")] = False
    details: Annotated[dict[str, str], Meta(description="Machine-readable facts.")] = {}


class GpuyardError(Exception):
    """Something went wrong that the user should know about."""

    code: ClassVar[str] = "fault"
    exit_code: ClassVar[int] = 7
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, hint: str = "", **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = {key: str(value) for key, value in details.items()}

    def to_failure(self) -> Failure:
        return Failure(self.code, self.message, self.hint, self.retryable, self.details)


class InvalidSpec(GpuyardError):
    """The job description or a message is malformed; nothing was changed."""

    code = "invalid"
    exit_code = 2


class NotFound(GpuyardError):
    """No such job, node or file."""

    code = "not_found"
    exit_code = 3


class Refused(GpuyardError):
    """The request is well formed, but can't be granted."""

    code = "refused"
    exit_code = 4


class Conflict(GpuyardError):
    """Someone else changed the same thing first, or the state forbids the request."""

    code = "conflict"
    exit_code = 5


class Unavailable(GpuyardError):
    """A service or the bus can't be reached now."""

    code = "unavailable"
    exit_code = 6
    retryable = True


class Fault(GpuyardError):
    """A bug of ours."""


_BY_CODE: dict[str, type[GpuyardError]] = {
    cls.code: cls for cls in (InvalidSpec, NotFound, Refused, Conflict, Unavailable, Fault)
}


def error_from(failure: Failure) -> GpuyardError:
    """Raise-ready twin of a failure that came over the wire."""
    error = _BY_CODE.get(failure.code, Fault)(failure.message, failure.hint)
    error.details = dict(failure.details)
    return error
