"""Gpuyard in Python: connect with `Client` (blocking) or `AsyncClient`, describe jobs with `JobSpec`.

Names are loaded when first used: importing gpuyard costs nothing, for the command line's sake.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuyard.client.aio import AsyncClient
    from gpuyard.client.sync import Client
    from gpuyard.contracts.errors import (
        Conflict,
        Fault,
        GpuyardError,
        InvalidSpec,
        NotFound,
        Refused,
        Unavailable,
    )
    from gpuyard.contracts.job import Job, JobSpec, JobState, TaskSpec

    __version__: str

__all__ = [
    "AsyncClient",
    "Client",
    "Conflict",
    "Fault",
    "GpuyardError",
    "InvalidSpec",
    "Job",
    "JobSpec",
    "JobState",
    "NotFound",
    "Refused",
    "TaskSpec",
    "Unavailable",
    "__version__",
]

_HOME = {"AsyncClient": "client.aio", "Client": "client.sync"} | dict.fromkeys(
    ("Job", "JobSpec", "JobState", "TaskSpec"), "contracts.job"
)


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module `gpuyard` has no attribute `{name}`")
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - costs more than all the rest

        return version("gpuyard")
    return getattr(import_module(f"gpuyard.{_HOME.get(name, 'contracts.errors')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
