"""What a service is: something that runs until cancelled, in a context made by the launcher."""

from dataclasses import dataclass
from typing import Protocol

from gpuyard.bus.port import Bus
from gpuyard.runtime.clock import Clock
from gpuyard.runtime.health import Health
from gpuyard.telemetry.logs import Log
from gpuyard.telemetry.metrics import Metrics


@dataclass(frozen=True)
class Context:
    """The world as a service sees it."""

    name: str
    bus: Bus
    clock: Clock
    health: Health
    metrics: Metrics
    log: Log


class Service(Protocol):
    async def run(self) -> None:
        """Serve until cancelled; call `context.health.ready()` once able to work.

        When cancelled, finish what is in hand quickly and let CancelledError pass.
        """
        ...
