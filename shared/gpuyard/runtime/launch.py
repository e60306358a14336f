"""From a command line to a running service: settings, logs, traces, bus, health port, signals."""

import asyncio
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.strict import unknown_key
from gpuyard.runtime import config as settings
from gpuyard.runtime.clock import SystemClock
from gpuyard.runtime.config import BusConfig, ServiceConfig, TelemetryConfig
from gpuyard.runtime.health import Health
from gpuyard.runtime.http import serve_health
from gpuyard.runtime.service import Context, Service
from gpuyard.telemetry import logs, traces
from gpuyard.telemetry.metrics import Metrics

ConfigT = TypeVar("ConfigT", bound=ServiceConfig)
_FOREIGN_TABLES = ("bus", "telemetry", "monitor", "scheduler", "executor", "logger")


def launch(
    name: str,
    kind: type[ConfigT],
    build: Callable[[ConfigT, Context], Service],
    argv: Sequence[str] | None = None,
) -> int:
    """Run a service until SIGTERM or SIGINT; returns the process's exit code."""
    try:
        own, bus, telemetry = read_settings(name, kind, sys.argv[1:] if argv is None else argv)
    except InvalidSpec as error:
        print(f"gpuyard {name}: {error.message}\n{error.hint}".rstrip(), file=sys.stderr)
        return error.exit_code
    log = logs.set_up(name, telemetry.log_level)
    if telemetry.otlp_url:
        traces.export_to(telemetry.otlp_url, name)
    try:
        asyncio.run(_serve(name, own, bus, build, log))
    except GpuyardError as error:
        log.error("stopped", error=error.message, hint=error.hint)
        return error.exit_code
    return 0


def read_settings(
    name: str, kind: type[ConfigT], argv: Sequence[str]
) -> tuple[ConfigT, BusConfig, TelemetryConfig]:
    """Settings of the service, the bus and telemetry, merged from file, environment and flags."""
    path, flags = settings.split_argv(argv)
    file = settings.read_file(path)
    for table in file:
        if table not in _FOREIGN_TABLES:
            raise unknown_key(table, _FOREIGN_TABLES)
    environment = settings.environment()
    return (
        settings.load(kind, name, table=file.get(name), environment=environment, flags=flags),
        settings.load(BusConfig, "bus", table=file.get("bus"), environment=environment),
        settings.load(TelemetryConfig, "telemetry", table=file.get("telemetry"), environment=environment),
    )


async def _serve(
    name: str,
    own: ConfigT,
    bus_config: BusConfig,
    build: Callable[[ConfigT, Context], Service],
    log: logs.Log,
) -> None:
    from gpuyard.bus.nats_bus import connect  # noqa: PLC0415 - `--help` and bad settings need no NATS

    health, metrics = Health(), Metrics()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with serve_health(own.health_host, own.health_port, health, metrics) as port:
        log.info("starting", health_port=port)
        async with connect(bus_config.url, name, replicas=bus_config.replicas, forever=True) as bus:
            service = build(own, Context(name, bus, SystemClock(), health, metrics, log))
            await _run_until(stop, service)
    log.info("stopped")


async def _run_until(stop: asyncio.Event, service: Service) -> None:
    """Run until the service ends by itself (which is a failure) or `stop` is set."""
    running = asyncio.ensure_future(service.run())
    stopping = asyncio.ensure_future(stop.wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
