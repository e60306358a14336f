"""Start the monitor: `python -m gpuyard_monitor --config FILE`."""

from collections.abc import Sequence

from gpuyard.runtime.launch import launch
from gpuyard.runtime.service import Context, Service
from gpuyard_monitor.config import MonitorConfig
from gpuyard_monitor.service import Monitor


def build(config: MonitorConfig, context: Context) -> Service:
    return Monitor(config, context)


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; returns the exit code."""
    return launch("monitor", MonitorConfig, build, argv)
