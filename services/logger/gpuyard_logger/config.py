"""Settings of the logger: table `[logger]`."""

from typing import Annotated

from msgspec import Meta, Struct, field

from gpuyard.contracts.log_rule import LogRule
from gpuyard.runtime.config import ServiceConfig

MIB = 1024 * 1024
GIB = 1024 * MIB


class KeepRule(Struct, frozen=True, kw_only=True):
    """How long the output of some jobs is kept once they have ended."""

    labels: Annotated[dict[str, str], Meta(description="Jobs that bear all of these; none: all jobs.")] = {}
    age_days: Annotated[float, Meta(gt=0, description="Days after the end; default: for ever.")] | None = None
    total_bytes: Annotated[int, Meta(gt=0, description="What all their output may take together.")] | None = (
        None
    )


class PoolLogRule(LogRule, frozen=True, kw_only=True):
    """A log rule for the jobs of some pool, told by their labels: a table `[[logger.log_rules]]`."""

    labels: Annotated[dict[str, str], Meta(description="Jobs that bear all of these; none: all jobs.")] = (
        field(default_factory=dict)
    )


class ObjectsConfig(Struct, frozen=True, kw_only=True):
    """Object storage for segments that are full: table `[logger.objects]`."""

    url: Annotated[
        str, Meta(description="`s3://BUCKET/PREFIX`, also `gs://`, `az://`, `file://`; empty: none.")
    ] = ""
    options: Annotated[
        dict[str, str],
        Meta(description="Endpoint, region, keys ...; what is not here comes from the environment."),
    ] = {}
    after_s: Annotated[
        float, Meta(ge=0, description="How long a full segment stays on the disk before it moves.")
    ] = 3600.0
    min_bytes: Annotated[int, Meta(ge=0, description="Smaller segments stay.")] = 8 * MIB
    timeout_s: Annotated[
        float, Meta(gt=0, le=600, description="How long a reader waits for the storage before it gives up.")
    ] = 2.0


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
    keep: Annotated[
        tuple[KeepRule, ...], Meta(description="The first rule that fits a job holds; without: for ever.")
    ] = ()
    log_rules: Annotated[
        tuple[PoolLogRule, ...], Meta(description="Rules for lines, beside those that are shipped.")
    ] = ()
    keep_interval_s: Annotated[float, Meta(gt=0, le=86400, description="How often they are applied.")] = 60.0
    readers_s: Annotated[
        float, Meta(ge=0, le=3600, description="How long a file stays for readers once it is done with.")
    ] = 60.0
    disk_share: Annotated[
        float, Meta(gt=0, le=1, description="Share of its disk that stored output may take.")
    ] = 0.8
    free_share: Annotated[
        float, Meta(ge=0, lt=1, description="Share of its disk that must stay free, whoever fills it ...")
    ] = 0.05
    free_bytes: Annotated[int, Meta(ge=0, description="... but no more than this.")] = 10 * GIB
    objects: ObjectsConfig = ObjectsConfig()
