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
    open_files: Annotated[int, Meta(ge=1, le=65536, description="Files held open at most.")] = 256
    round_bytes: Annotated[
        int, Meta(ge=1, le=256 * MIB, description="What is written at most before waiting for the disk.")
    ] = 8 * MIB
    round_messages: Annotated[int, Meta(ge=1, le=65536, description="The same, in batches.")] = 1024
    keep_bytes: Annotated[
        int, Meta(ge=0, description="How much of the stream is kept for followers once it is stored.")
    ] = 64 * MIB
    keep_s: Annotated[float, Meta(ge=0, description="How long it is kept for them.")] = 60.0
    trim_interval_s: Annotated[float, Meta(gt=0, le=3600, description="How often the rest is removed.")] = 5.0
