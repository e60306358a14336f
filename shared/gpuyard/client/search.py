"""Searching the output of all jobs: asks the loggers job by job, newest first, a page at a time."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from gpuyard.bus.port import Bus
from gpuyard.contracts.log import LogLine
from gpuyard.linefilter import Filter

LIMIT = 1000


class Question(NamedTuple):
    """What is looked for. `jobs` None: all."""

    filter: Filter
    jobs: Collection[str] | None = None
    labels: Mapping[str, str] = {}
    ranks: Collection[int] | None = None


class Unasked(NamedTuple):
    """A job whose output could not be searched, and why."""

    job: str
    why: str


class Found(NamedTuple):
    """A page of lines. `cursor` is empty when everything was searched."""

    lines: list[LogLine]
    cursor: str
    unasked: list[Unasked]
    scanned_bytes: int


async def search(bus: Bus, question: Question, *, limit: int = LIMIT, cursor: str = "") -> Found:
    """Search on behind `cursor` until there are `limit` lines, or nothing is left."""
    raise NotImplementedError
