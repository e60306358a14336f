"""What `gpuyard up` was asked for; handed as JSON to the process that does it."""

from gpuyard.yard.nodes import Node
from msgspec import Struct


class Options(Struct, frozen=True):
    """A yard as wanted. `port` 0: the one it had before, or any free one."""

    dir: str
    nodes: tuple[Node, ...]
    port: int = 0
    nats_server: str = ""
    otlp_url: str = ""
    ready_fd: int | None = None
    """Where to say that everything is ready, or why not: see `gpuyard.yard.outcome`."""
