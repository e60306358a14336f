"""What `gpuyard doctor` found out about one thing."""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct


class Status(StrEnum):
    """How a check went."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Check(Struct, frozen=True):
    """One thing that was looked at."""

    name: str
    status: Annotated[Status, Meta(description="`warn`: works, but not everything or not well.")]
    message: Annotated[str, Meta(description="One sentence for people.")]
    fix: Annotated[str, Meta(description="What to do about it.")] = ""


def ok(name: str, message: str) -> Check:
    return Check(name, Status.OK, message)


def warn(name: str, message: str, fix: str) -> Check:
    return Check(name, Status.WARN, message, fix)


def fail(name: str, message: str, fix: str) -> Check:
    return Check(name, Status.FAIL, message, fix)
