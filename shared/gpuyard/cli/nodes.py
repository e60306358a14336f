"""`gpuyard nodes`: the machines and their GPUs."""

from itertools import groupby

from gpuyard.cli import terminal, words
from gpuyard.cli.session import AsJson, YardDir, client
from gpuyard.client.nodes import GpuView, LinkView, NodeView

HEADER = ("GPU", "MODEL", "HEALTH", "BUSY", "MEMORY", "HOLDER", "LINKS")


async def nodes(*, as_json: AsJson = False, yard_dir: YardDir = None) -> None:
    """Show nodes and their GPUs."""
    async with client(yard_dir) as yard:
        found = await yard.nodes()
    if as_json:
        terminal.print_json(found)
        return
    if not found:
        terminal.narrate("No nodes have presented themselves yet.")
    for node in found:
        terminal.print_data(_title(node))
        if node.gpus:
            table = terminal.table(HEADER, (_row(gpu) for gpu in node.gpus))
            terminal.print_data("\n".join(f"  {line}" for line in table.splitlines()))


def _title(node: NodeView) -> str:
    free = sum(node.heard and gpu.holder is None and gpu.health == "ok" for gpu in node.gpus)
    facts = [
        words.count(len(node.gpus), "GPU") + (f" ({free} free)" if node.gpus else ""),
        f"cpu {_percent(node.cpu)}" if node.cpu is not None else "",
        f"runs ranks as {node.runtime}" if node.runtime else "no executor",
        "simulated" if node.simulated else "",
        "" if node.sampled_at_s else "no measurements heard" if node.heard else "silent",
    ]
    return f"{node.node}: {', '.join(fact for fact in facts if fact)}"


def _row(gpu: GpuView) -> tuple[str, ...]:
    memory = f"{words.size(gpu.memory_used_bytes)} / {words.size(gpu.memory_bytes)}"
    health = f"{gpu.health} ({gpu.health_reason})" if gpu.health_reason else gpu.health
    return (
        str(gpu.index),
        gpu.model or "?",
        health,
        _percent(gpu.utilisation),
        memory,
        gpu.holder or "-",
        _links(gpu.links),
    )


def _percent(part: float | None) -> str:
    return "?" if part is None else f"{part:.0%}".replace("%", " %")


def _links(links: tuple[LinkView, ...]) -> str:
    """Peers by kind of link, the fastest first: `NV2 3,4  NV1 1,2  SYS 5-7`."""
    ordered = sorted(links, key=lambda link: (-(link.gb_s or 0.0), link.label, link.index))
    return "  ".join(
        f"{label} {_ranges([link.index for link in group])}"
        for label, group in groupby(ordered, key=lambda link: link.label)
    )


def _ranges(numbers: list[int]) -> str:
    """`[1, 2, 3, 5]` as `1-3,5`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
