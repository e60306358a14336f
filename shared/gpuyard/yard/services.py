"""The four services as programs of a yard: their settings, their environment, how to see that they work."""

import os
import sys
from pathlib import Path

from gpuyard.client import locate
from gpuyard.yard.endpoints import Endpoints
from gpuyard.yard.layout import Layout
from gpuyard.yard.options import Options
from gpuyard.yard.probe import ask_service
from gpuyard.yard.processes import Program
from gpuyard.yard.settings import SERVICES, render_toml, service_settings


def service_environment(environment: dict[str, str]) -> dict[str, str]:
    """What services, and through them jobs, inherit: `python` means this Python."""
    beside = str(Path(sys.executable).parent)
    return environment | {"PATH": f"{beside}{os.pathsep}{environment.get('PATH', os.defpath)}"}


def service_programs(
    options: Options, layout: Layout, endpoints: Endpoints, environment: dict[str, str]
) -> list[Program]:
    """Write the services' settings and say how to run each of them."""
    settings = render_toml(service_settings(options, layout, endpoints))
    locate.write_private(layout.settings, settings.encode())
    return [_service_program(name, layout, endpoints.ports[name], environment) for name in SERVICES]


def _service_program(name: str, layout: Layout, port: int, environment: dict[str, str]) -> Program:
    async def is_ready() -> bool:
        return (await ask_service(port)).is_ready

    # -P: whatever lies in the current directory must not be imported instead of what we mean.
    argv = (sys.executable, "-P", "-m", f"gpuyard_{name}", "--config", str(layout.settings))
    return Program(name, argv, layout.log(name), is_ready, port, environment, layout.root)
