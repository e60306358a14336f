"""The record of a rank: one file of lines, only ever appended to.

First the plan, written by the executor that makes the file. Then the id of the rank's first process, written
by that process before it becomes the command; a container has none of ours. Last how it ended, written once
nothing of the rank is left, by the supervisor or keeper, or by an executor that finds it gone. A line without
its end was never written.

The file is also the lock: its supervisor holds it locked as long as it lives.
"""

import contextlib
import json
from typing import NamedTuple

import msgspec
from msgspec import Struct

from gpuyard.contracts.job import ExitCause


class PlanLine(Struct, frozen=True):
    """What the supervisor needs to know. `boot`: when the machine was started.

    `is_container`: the rank has a keeper, and named pipes.
    """

    command: tuple[str, ...]
    cwd: str
    grace_s: float
    segment_bytes: int
    limit_bytes: int
    boot: str
    is_container: bool = False


class EndLine(Struct, frozen=True):
    """How it ended. `failed`: stage and error number. `lost`: the executor's guess; nobody saw it.

    `cause` and `message` are the engine's, for a container.
    """

    code: int | None = None
    started_at_s: float | None = None
    ended_at_s: float | None = None
    stopped: bool = False
    failed: tuple[str, int] | None = None
    lost: ExitCause | None = None
    cause: ExitCause | None = None
    message: str = ""


class RankRecord(NamedTuple):
    """As far as it was written. `pid` 0: the rank never began."""

    plan: PlanLine
    pid: int = 0
    end: EndLine | None = None


def parse_record(data: bytes) -> RankRecord | None:
    """What a record file says; None if not even the plan was finished."""
    lines = data.split(b"\n")[:-1]
    try:
        record = RankRecord(msgspec.convert(json.loads(lines[0]), PlanLine))
    except (IndexError, ValueError):
        return None
    for line in lines[1:]:
        if line.isdigit():
            record = record._replace(pid=int(line))
        else:
            with contextlib.suppress(msgspec.MsgspecError):  # cut short by a full disk; another follows
                record = record._replace(end=msgspec.json.decode(line, type=EndLine))
    return record


def render_plan(plan: PlanLine) -> bytes:
    """By Python's own JSON: an argument or path that is no text keeps its escaped bytes."""
    return json.dumps(msgspec.to_builtins(plan)).encode() + b"\n"


def render_end(end: EndLine) -> bytes:
    return msgspec.json.encode(end) + b"\n"
