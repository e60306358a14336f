"""Settings of the scheduler, table `[scheduler]`."""

from typing import Annotated

from msgspec import Meta

from gpuyard.runtime.config import ServiceConfig


class SchedulerConfig(ServiceConfig, frozen=True, kw_only=True):
    """What an operator can tell the scheduler."""

    tick_s: Annotated[float, Meta(gt=0, le=10, description="Deadlines are checked so often.")] = 0.5
    lease_s: Annotated[float, Meta(ge=1, le=60, description="A silent leader is believed so long.")] = 3.0
    keep_ended: Annotated[int, Meta(ge=0, description="Ended jobs whose history is kept.")] = 10_000
