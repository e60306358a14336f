"""The executor's side of containers, set up for tests."""

from typing import Any

import structlog

from gpuyard_executor.config import ExecutorConfig
from gpuyard_executor.docker_runtime import DockerRuntime
from gpuyard_executor.spawner_handle import SpawnerHandle
from tests.docker.daemon import Daemon
from tests.docker.images import BUSYBOX


def docker_runtime(daemon: Daemon, spawner: SpawnerHandle, **settings: Any) -> DockerRuntime:
    config = ExecutorConfig(nodes=("n1",), dir="/", docker_url=daemon.url, docker_image=BUSYBOX, **settings)
    return DockerRuntime(config, spawner, structlog.get_logger(service="executor"))
