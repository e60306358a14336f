"""What all ranks of a node share that run in containers, and how each of them asks the engine."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gpuyard.contracts.errors import Unavailable
from gpuyard.runtime.retry import backoff_s
from gpuyard.telemetry.logs import Log
from gpuyard_executor.core.container_end import Outage
from gpuyard_executor.core.rank import GangKey
from gpuyard_executor.docker_api import DockerApi
from gpuyard_executor.docker_directory import Owner
from gpuyard_executor.docker_maker import DockerMaker
from gpuyard_executor.docker_networks import DockerNetworks
from gpuyard_executor.rank_directory import Limits
from gpuyard_executor.spawner_handle import SpawnerHandle

T = TypeVar("T")


@dataclass
class Dock:
    api: DockerApi
    spawner: SpawnerHandle
    maker: DockerMaker
    networks: DockerNetworks
    owner: Owner
    limits: Limits
    log: Log
    has_ranks: Callable[[GangKey], bool] = lambda gang: False
    """Whether a rank of the gang is still here; set by the engine."""
    outage: Outage = field(default_factory=Outage)

    async def insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Ask the engine until it is there."""
        tries = 0
        while True:
            try:
                return await call()
            except Unavailable as error:
                tries += 1
                self.log.warning("the container engine is asked again", error=error.message)
                await asyncio.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter
