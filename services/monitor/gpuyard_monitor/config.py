"""Settings of the monitor: table `[monitor]`."""

import difflib
from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.ids import NodeId
from gpuyard.runtime.config import ServiceConfig
from gpuyard_monitor.core.rules import BY_NAME, IGNORABLE


class NodeConfig(Struct, frozen=True):
    """One node to speak for."""

    id: NodeId
    capture: Annotated[
        str, Meta(description="Captured topology to simulate: a name or a file. Empty: this machine.")
    ] = ""
    labels: Annotated[
        dict[str, str], Meta(description="What to know of it beyond its hardware: `rack`, `room` ...")
    ] = {}


class MonitorConfig(ServiceConfig, frozen=True, kw_only=True):
    """What the monitor can be told."""

    nodes: Annotated[
        tuple[NodeConfig, ...], Meta(description="Nodes to speak for. None: this machine, by its host name.")
    ] = ()
    sample_every_s: Annotated[float, Meta(ge=0.1, le=60, description="Seconds between two samples.")] = 1.0
    inventory_every_s: Annotated[
        float, Meta(ge=1, le=3600, description="Seconds after which the hardware is looked at anew.")
    ] = 60.0
    tolerated: Annotated[
        tuple[str, ...],
        Meta(description="Programs that may use GPUs although nobody scheduled them: screens and servers."),
    ] = ("Xorg", "Xwayland", "gnome-shell", "nvidia-cuda-mps", "nv-hostengine")
    ignored_rules: Annotated[
        tuple[str, ...],
        Meta(description="Health rules that are switched off: names of those in docs/concepts/health.md."),
    ] = ()

    def __post_init__(self) -> None:
        ids = [node.id for node in self.nodes]
        if len(set(ids)) < len(ids):
            raise ValueError("two nodes have the same id")
        if sum(not node.capture for node in self.nodes) > 1:
            raise ValueError("this machine can be one node only; give the others a `capture`")
        for name in self.ignored_rules:
            if name not in IGNORABLE:
                raise ValueError(_no_such_rule(name))


def _no_such_rule(name: str) -> str:
    near = difflib.get_close_matches(name, IGNORABLE, n=1)
    if name in BY_NAME:
        why = "can't be switched off: nothing can run on a GPU that does not answer"
    else:
        why = f"is no health rule; did you mean `{near[0]}`?" if near else "is no health rule"
    return f"`{name}` {why}. Rules that can be: {', '.join(IGNORABLE)}"
