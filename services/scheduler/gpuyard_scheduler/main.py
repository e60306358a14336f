"""Start a scheduler: `python -m gpuyard_scheduler --config FILE`."""

import os
import socket
from collections.abc import Sequence

from gpuyard.runtime.launch import launch
from gpuyard.runtime.service import Context, Service
from gpuyard_scheduler.config import SchedulerConfig
from gpuyard_scheduler.service import SchedulerService


def build(config: SchedulerConfig, context: Context) -> Service:
    return SchedulerService(config, context, owner=f"{socket.gethostname()}-{os.getpid()}")


def main(argv: Sequence[str] | None = None) -> int:
    return launch("scheduler", SchedulerConfig, build, argv)
