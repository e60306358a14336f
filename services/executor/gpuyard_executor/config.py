"""Settings of the executor, table `[executor]`."""

from typing import Annotated, Literal

from msgspec import Meta

from gpuyard.contracts.ids import NodeId
from gpuyard.runtime.config import ServiceConfig


class ExecutorConfig(ServiceConfig, frozen=True, kw_only=True):
    """What an operator can tell the executor. One process may serve several nodes."""

    nodes: Annotated[tuple[NodeId, ...], Meta(min_length=1, description="Nodes it runs ranks for.")]
    dir: Annotated[str, Meta(min_length=1, description="Directory of ranks, orders and working directories.")]
    address: Annotated[str, Meta(min_length=1, description="Where other nodes reach this one.")] = "127.0.0.1"
    runtime: Annotated[Literal["process", "docker"], Meta(description="How ranks are run.")] = "process"
    first_port: Annotated[int, Meta(ge=1024, le=65535, description="First port given to a rank 0.")] = 20000
    last_port: Annotated[int, Meta(ge=1024, le=65535, description="Last port given to a rank 0.")] = 29999
    keep_workdirs: Annotated[int, Meta(ge=0, description="Working directories kept for each node.")] = 50
    unshipped_bytes: Annotated[
        int, Meta(ge=1 << 20, description="A rank whose output waits on disk beyond this has to wait, bytes.")
    ] = 1 << 30
    docker_url: Annotated[str, Meta(min_length=1, description="Where the Docker engine listens.")] = (
        "unix:///var/run/docker.sock"
    )
    docker_image: Annotated[str, Meta(description="Image of tasks that name none; empty: refuse them.")] = ""
    docker_user: Annotated[
        str, Meta(pattern=r"^([1-9][0-9]*:[1-9][0-9]*)?$", description="User and group of containers.")
    ] = ""
    """Empty: whoever the executor is, or 59000:59000 if it is root."""
    docker_pids: Annotated[int, Meta(ge=16, description="Processes and threads of a rank.")] = 4096
    docker_internet: Annotated[bool, Meta(description="Whether ranks reach more than their gang.")] = False
    docker_subnets: Annotated[
        str, Meta(pattern=r"^[0-9.]+/[0-9]+$", description="Pool of which each gang's network takes a part.")
    ] = "198.18.0.0/15"
