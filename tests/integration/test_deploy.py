"""What deploy/ ships is accepted by what it configures."""

import subprocess
from pathlib import Path

import pytest

from gpuyard.runtime.config import ServiceConfig
from gpuyard.runtime.launch import read_settings
from gpuyard_executor.config import ExecutorConfig
from gpuyard_logger.config import LoggerConfig
from gpuyard_monitor.config import MonitorConfig
from gpuyard_scheduler.config import SchedulerConfig
from tests.natsd import server_binary

DEPLOY = Path(__file__).parents[2] / "deploy"
CONFIGS: dict[str, type[ServiceConfig]] = {
    "monitor": MonitorConfig,
    "scheduler": SchedulerConfig,
    "executor": ExecutorConfig,
    "logger": LoggerConfig,
}


@pytest.mark.parametrize("name", CONFIGS)
def test_each_service_accepts_the_example_settings(name: str) -> None:
    own, bus, telemetry = read_settings(name, CONFIGS[name], ["--config", str(DEPLOY / "gpuyard.toml")])
    assert own.health_port
    assert "nats.example" in bus.url
    assert telemetry.log_level == "info"


def test_the_nats_server_accepts_its_configuration() -> None:
    check = (server_binary(), "-t", "-c", str(DEPLOY / "nats" / "server.conf"))
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
