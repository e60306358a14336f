"""`gpuyard nodes`: the machines and their GPUs."""

from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter

from gpuyard.cli import terminal, words
from gpuyard.cli.node_names import the_node
from gpuyard.cli.session import AsJson, YardDir, client
from gpuyard.client.node_view import GpuView, LinkView, NodeView
from gpuyard.contracts.hardware import Basis, GpuProcess, Health

HEADER = ("GPU", "MODEL", "HEALTH", "BUSY", "MEMORY", "HOLDER", "LINKS")
MEASURED = "*"
_HEALTH = {
    Health.OK: "ok",
    Health.OUT: "out of service",
    Health.FOREIGN: "foreign",
    Health.UNKNOWN: "unknown",
}


async def nodes(
    node: Annotated[str | None, Parameter(name="NODE", help="Only this one.")] = None,
    /,
    *,
    as_json: AsJson = False,
    yard_dir: YardDir = None,
) -> None:
    """Show nodes and their GPUs."""
    async with client(yard_dir) as yard:
        found = the_node(await yard.nodes(), node)
    if as_json:
        terminal.print_json(found)
        return
    if not found:
        terminal.narrate("No nodes have presented themselves yet.")
    for each in found:
        terminal.print_data("\n".join((_title(each), *(f"  {line}" for line in _details(each)))))


def _title(node: NodeView) -> str:
    free = sum(node.has_free(gpu) for gpu in node.gpus)
    facts = [
        words.count(len(node.gpus), "GPU") + (f" ({free} free)" if node.gpus else ""),
        f"cpu {_percent(node.cpu)}" if node.cpu is not None else "",
        f"runs ranks as {node.runtime}" if node.runtime else "no executor",
        "simulated" if node.simulated else "",
        "" if node.sampled_at_s else "no measurements heard" if node.heard else "silent",
    ]
    return f"{node.node}: {', '.join(fact for fact in facts if fact)}"


def _details(node: NodeView) -> Iterator[str]:
    if node.advice:
        yield f"advice: {words.harmless(node.advice)}"
    if node.gpus:
        yield from terminal.table(HEADER, (_row(gpu) for gpu in node.gpus)).splitlines()
    for gpu in node.gpus:
        yield from _remarks(gpu)
    if any(link.basis is Basis.MEASURED for gpu in node.gpus for link in gpu.links):
        yield f"{MEASURED} bandwidth measured by a probe"


def _row(gpu: GpuView) -> tuple[str, ...]:
    return (
        str(gpu.index),
        words.harmless(gpu.model) or "?",
        _HEALTH[gpu.health],
        _percent(gpu.utilisation),
        f"{words.size(gpu.memory_used_bytes)} / {words.size(gpu.memory_bytes)}",
        gpu.holder or "-",
        _links(gpu.links),
    )


def _remarks(gpu: GpuView) -> Iterator[str]:
    """Why a GPU can't be used, and what uses it without having been scheduled."""
    if gpu.health_reason:
        yield f"GPU {gpu.index} is {_HEALTH[gpu.health]}: {words.harmless(gpu.health_reason)}"
    for process in gpu.processes or ():
        if process.job is None:
            yield f"GPU {gpu.index}: {_process(process)}, which nobody scheduled"


def _process(process: GpuProcess) -> str:
    name = f" {words.harmless(process.name)}" if process.name else ""
    user = f" of {words.harmless(process.user)}" if process.user else ""
    memory = "" if process.memory_bytes is None else f" ({words.size(process.memory_bytes)})"
    return f"process {process.pid}{name}{user}{memory}"


def _percent(part: float | None) -> str:
    return "?" if part is None else f"{part:.0%}".replace("%", " %")


def _links(links: tuple[LinkView, ...]) -> str:
    """Peers by kind of link, the fastest first: `NV2 3,4  NV1* 1,2  SYS 5-7`."""
    ordered = sorted(links, key=lambda link: (-(link.gb_s or 0.0), _kind(link), link.index))
    groups: dict[str, list[int]] = {}
    for link in ordered:
        groups.setdefault(_kind(link), []).append(link.index)
    return "  ".join(f"{kind} {_ranges(peers)}" for kind, peers in groups.items())


def _kind(link: LinkView) -> str:
    return f"{link.label}{MEASURED if link.basis is Basis.MEASURED else ''}"


def _ranges(numbers: list[int]) -> str:
    """`[1, 2, 3, 5]` as `1-3,5`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
