"""What `gpuyard up` was asked for; handed as JSON to the process that does it."""

from msgspec import Struct

from gpuyard.yard.nodes import Node


class Options(Struct, frozen=True):
    """A yard as wanted. `port` 0: the one it had before, or any free one."""

    dir: str
    nodes: tuple[Node, ...]
    port: int = 0
    nats_server: str = ""
    otlp_url: str = ""
    as_json: bool = False
    """Whether to tell in JSON what runs, or what went wrong."""
    ready_fd: int | None = None
    """Where to say that everything is ready, or why not: see `gpuyard.yard.outcome`."""
