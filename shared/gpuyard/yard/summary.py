"""What `gpuyard up` says once everything is ready. Pure."""

from collections.abc import Iterable
from pathlib import Path

from gpuyard.client import locate
from gpuyard.yard.layout import Layout
from gpuyard.yard.nodes import Node, describe
from gpuyard.yard.outcome import RunningYard


def render_summary(yard: RunningYard, nodes: Iterable[Node], took_s: float) -> str:
    """What runs, where it is, and how to stop it."""
    layout = Layout(Path(yard.dir))
    lines = [f"Ready after {took_s:.1f} s in {yard.dir}"]
    for name, running in yard.services.items():
        where = f"http://127.0.0.1:{running.health_port}/readyz" if running.health_port else yard.address
        lines.append(f"  {name:<12} pid {running.pid:<8} {where}")
    return "\n".join(
        [
            *lines,
            f"  nodes        {describe(nodes)}",
            f"  logs         {layout.logs}",
            f"Stop it with `gpuyard down{locate.dir_flag(layout.root)}`.",
        ]
    )
