"""docs/benchmarks.md from the measured figures."""

from collections.abc import Iterator
from typing import Any

_HEAD = """# Benchmarks

Written by `make bench`; nothing here is typed by hand. Each figure is the median of several runs, with the
least and the most beside it. The services, the NATS server and the load run on the same machine. Every
acknowledged request and record is on disk (`sync_interval: always`).

"""


_PLACEMENT = """
## On how well linked GPUs jobs land

Jobs of 1, 2 and 4 GPUs come and go at random on one node (`tests/bench/arrivals.py` says how). Every policy
places the same jobs at the same moments. Counted are jobs on *fully linked* GPUs: every pair has NVLink
where the machine has NVLink; elsewhere every pair is at the best PCIe level that a set of that size can have
on that machine. Where all sets are linked alike (NVSwitch, all pairs SYS), what differs is the last column:
jobs of 2 or 4 GPUs on one socket. Each cell: Gpuyard / go-gpuallocator / first fit.

| capture | 2-GPU jobs | fully linked | 4-GPU jobs | fully linked | on one socket |
|---|---:|---:|---:|---:|---:|
"""


def render(result: dict[str, Any]) -> str:
    machine = result["machine"]
    where = f"{machine['cores']} cores of {machine['cpu']}, Linux {machine['kernel']}"
    lines = [
        f"Measured {result['at']} on {where}, Python {machine['python']}, one simulated node of 8 GPUs.",
        "",
        "| figure | unit | median | least | most | runs | promised | holds |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for figure in result["figures"]:
        holds = {True: "yes", False: "**no**", None: ""}[figure["holds"]]
        numbers = " | ".join(f"{figure[key]:.3g}" for key in ("median", "least", "most"))
        cells = (figure["name"], figure["unit"], numbers, figure["runs"], figure["promise"], holds)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return _HEAD + "\n".join(lines) + "\n" + _PLACEMENT + _placement(result["placement"])


def _placement(rows: list[dict[str, Any]]) -> str:
    return "".join(f"| {' | '.join(_placement_cells(row))} |\n" for row in [*rows, _in_total(rows)])


def _placement_cells(row: dict[str, Any]) -> Iterator[str]:
    yield row["capture"]
    for count, jobs in row["jobs"].items():
        yield f"{jobs:,}"
        yield " / ".join(f"{linked[count]:,}" for linked in row["linked"].values())
    yield " / ".join(f"{jobs:,}" for jobs in row["one_socket"].values())


def _in_total(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All rows added up, number by number."""

    def added(parts: list[Any]) -> Any:
        if isinstance(parts[0], dict):
            return {key: added([part[key] for part in parts]) for key in parts[0]}
        return sum(parts)

    numbers = ("jobs", "linked", "one_socket")
    return {"capture": "**total**"} | {key: added([row[key] for row in rows]) for key in numbers}
