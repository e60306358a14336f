"""Puts the Docker engines of an executor's nodes together: they share one connection."""

import os
from hashlib import sha256
from pathlib import Path

from gpuyard.telemetry.logs import Log
from gpuyard_executor.config import ExecutorConfig
from gpuyard_executor.core.container import ContainerRules
from gpuyard_executor.docker_api import DockerApi
from gpuyard_executor.docker_directory import Owner
from gpuyard_executor.docker_dock import Dock
from gpuyard_executor.docker_engine import DockerEngine
from gpuyard_executor.docker_maker import DockerMaker
from gpuyard_executor.docker_networks import DockerNetworks
from gpuyard_executor.rank_directory import Limits
from gpuyard_executor.spawner_handle import SpawnerHandle

_NOBODYS = (59000, 59000)
"""Beyond the users of a machine, below what systemd gives away."""


class DockerRuntime:
    def __init__(self, config: ExecutorConfig, spawner: SpawnerHandle, log: Log) -> None:
        self.owner = _owner(config.docker_user)
        self._config = config
        self._spawner = spawner
        self._log = log
        self._api = DockerApi(config.docker_url)

    def close(self) -> None:
        self._api.close()

    def engine(self, home: Path) -> DockerEngine:
        """The engine of the node with this directory."""
        home, config = home.absolute(), self._config
        prefix = f"gpuyard-{sha256(os.fsencode(home)).hexdigest()[:8]}-"
        rules = ContainerRules(
            home=str(home),
            user=f"{self.owner[0]}:{self.owner[1]}",
            pids=config.docker_pids,
            has_internet=config.docker_internet,
        )
        networks = DockerNetworks(self._api, rules, config.docker_subnets, prefix)
        maker = DockerMaker(self._api, rules, networks, config.docker_image)
        limits = Limits(unshipped_bytes=config.unshipped_bytes)
        return DockerEngine(
            home, prefix, Dock(self._api, self._spawner, maker, networks, self.owner, limits, self._log)
        )


def _owner(user: str) -> Owner:
    """Whom containers run as: never root. An executor that is not root can only share with itself."""
    if user:
        uid, _, gid = user.partition(":")
        return int(uid), int(gid)
    return (os.geteuid(), os.getegid()) if os.geteuid() else _NOBODYS
