"""Settings of the logger: table `[logger]`."""

from typing import Annotated

from msgspec import Meta

from gpuyard.runtime.config import ServiceConfig

MIB = 1024 * 1024


class LoggerConfig(ServiceConfig, frozen=True, kw_only=True):
    """Where lines are kept, and how much at a time."""

    dir: Annotated[str, Meta(min_length=1, description="Folder of the store; one logger each.")] = (
        "gpuyard-logs"
    )
    seal_s: Annotated[
        float, Meta(gt=0, le=600, description="How long lines wait for others before they are sealed.")
    ] = 3.0
    open_bytes: Annotated[
        int, Meta(ge=1024, le=256 * MIB, description="Memory of a partition's lines that wait, at most.")
    ] = 4 * MIB
    lease_s: Annotated[
        float, Meta(ge=2, le=600, description="How long a silent logger keeps its partitions from others.")
    ] = 10.0
    keep_bytes: Annotated[
        int,
        Meta(ge=0, description="How much of each partition is kept in the stream once it is stored."),
    ] = 8 * MIB
    keep_s: Annotated[float, Meta(ge=0, description="How long it is kept for them.")] = 60.0
    trim_interval_s: Annotated[float, Meta(gt=0, le=3600, description="How often the rest is removed.")] = 5.0
