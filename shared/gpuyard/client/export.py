"""A job's whole output in one file."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from gpuyard.bus.port import Bus
from gpuyard.contracts.job import Job

Format = Literal["plain", "jsonl", "parquet"]


class Exported(NamedTuple):
    """How much was written."""

    lines: int
    text_bytes: int


Progress = Callable[[Exported], None]


def say_nothing(_so_far: Exported) -> None:
    """A progress nobody watches."""


async def export(bus: Bus, job: Job, path: Path, format: Format, progress: Progress) -> Exported:  # noqa: A002
    """Write all attempts of a job."""
    raise NotImplementedError
