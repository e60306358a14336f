"""The matrix of `nvidia-smi topo -m`, read from text.

What is damaged beyond doubt is refused: a placement built on a guessed matrix is worse than none. Every
pair is stated twice and both must agree; every GPU of the header must have its whole row. `topo -m` hides
the PCIe level of a pair with NVLinks; where the text also holds `topo -mp`, which hides the NVLinks, the
two are joined. Linear in the length of the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gpuyard.contracts.hardware import Level, Link, Nic
from gpuyard.topology.p2p_text import holds_status
from gpuyard.topology.table_text import Row, Table, TopologyError, is_gpu, nic_names, read_tables

_NVLINKS = re.compile(r"NV([1-9][0-9]?)")
_CPU_LIST = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")
_SELF = "X"
# Drivers of 2017 and before call SYS by its older name.
_LEVELS = {level.value: level for level in Level} | {"SOC": Level.SYSTEM}


@dataclass(frozen=True, slots=True)
class Affinity:
    """The CPU side of a GPU. A NUMA cell that names several nodes is unknown."""

    cpus: str | None = None
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """What the text says. Links have no bandwidth yet, and no PCIe level where NVLink hides it."""

    gpus: tuple[Affinity, ...]
    links: tuple[Link, ...]
    nics: tuple[Nic, ...]


def parse_topology(text: str) -> Topology:
    """Read a matrix, wherever it stands in the text.

    Raises:
        TopologyError: it is cut, contradicts itself, or is none at all. Nothing else, whatever the text.

    """
    tables, names = read_tables(text), nic_names(text)
    matrices = [table for table in tables if not holds_status(table)]
    if not matrices:
        raise TopologyError(
            "a table of peer-to-peer status, but no matrix of links",
            tables[0].line,
            "Put the output of `nvidia-smi topo -m` before that of `nvidia-smi topo -p2p`.",
        )
    found = _topology(matrices[0], names)
    for table in matrices[1:]:
        found = _joined(found, _topology(table, names), table.line)
    return found


def _topology(table: Table, names: dict[str, str]) -> Topology:
    rows = {name: _cells(name, row, table) for name, row in table.rows.items()}
    affinities = {name: _affinity(row, table.titles) for name, row in table.rows.items()}
    _check_nics(table)
    _check_symmetric(rows, table)
    return Topology(
        tuple(affinities[name] for name in table.gpus),
        tuple(_links(table.gpus, rows)),
        tuple(
            Nic(names.get(nic, nic), tuple(Level(rows[gpu][nic]) for gpu in table.gpus))
            for nic in table.devices
            if not is_gpu(nic)
        ),
    )


def _joined(first: Topology, second: Topology, line: int) -> Topology:
    """One machine from two matrices, which may differ only in showing either NVLinks or levels."""
    if len(first.gpus) == len(second.gpus):
        links = tuple(map(_joined_link, first.links, second.links))
        if None not in links and (first.gpus, first.nics) == (second.gpus, second.nics):
            return Topology(first.gpus, tuple(link for link in links if link), first.nics)
    raise TopologyError("a second matrix, which differs: keep one machine in a file", line)


def _joined_link(first: Link, second: Link) -> Link | None:
    """What both show together; None if they contradict each other."""
    nvlinks, level = first.nvlinks or second.nvlinks, first.level or second.level
    agree = second.nvlinks in (0, nvlinks) and second.level in (None, level)
    return replace(first, nvlinks=nvlinks, level=level) if agree else None


def _cells(name: str, row: Row, table: Table) -> dict[str, str]:
    found = {}
    for device, cell in zip(table.devices, row.cells, strict=True):
        if (cell == _SELF) != (device == name):
            raise TopologyError(f"`{cell[:40]}` between {name} and {device}", row.line)
        bonded = is_gpu(name) and is_gpu(device) and _NVLINKS.fullmatch(cell)
        if cell not in (_SELF, *_LEVELS) and not bonded:
            raise TopologyError(f"`{cell[:40]}` between {name} and {device} is no link", row.line)
        found[device] = _LEVELS.get(cell, cell)
    return found


def _affinity(row: Row, titles: Sequence[str]) -> Affinity:
    """Assign the cells behind the matrix. An empty cell leaves its column only if tabs tell which."""
    words = row.rest.split()
    if len(words) > len(titles) or not _LEVELS.keys().isdisjoint(words):
        raise TopologyError(f"more cells than columns: `{row.rest.strip()[:40]}`", row.line)
    if len(words) < len(titles):
        words = _by_tabs(row.rest, len(titles))
    by_title = dict(zip(titles, words, strict=False))
    numa = by_title.get("NUMA Affinity", "")
    return Affinity(
        _cpus(by_title.get("CPU Affinity", ""), row.line),
        int(numa) if re.fullmatch(r"[0-9]{1,5}", numa) else None,
    )


def _by_tabs(rest: str, count: int) -> list[str]:
    """Cells by their tabs: the first may be empty; other empty ones are padding if the rest adds up."""
    if "\t" not in rest:
        return []
    first, *others = (cell.strip() for cell in rest.lstrip(" ").removeprefix("\t").split("\t"))
    filled = [cell for cell in others if cell]
    return [first, *filled] if len(filled) == count - 1 else [first]


def _cpus(cell: str, line: int) -> str | None:
    if cell in ("", "N/A"):
        return None
    if not _CPU_LIST.fullmatch(cell) or not all(map(_is_ascending, cell.split(","))):
        raise TopologyError(f"`{cell[:40]}` is no list of CPUs", line)
    return cell


def _is_ascending(part: str) -> bool:
    first, _, last = part.partition("-")
    return int(first) <= int(last or first)


def _check_nics(table: Table) -> None:
    """Published texts often leave out the rows of all network cards; only some missing means a cut."""
    nics = [name for name in table.devices if not is_gpu(name)]
    given = [name for name in nics if name in table.rows]
    if given and len(given) < len(nics):
        raise TopologyError("the rows of some network cards are missing", table.last_line)


def _check_symmetric(rows: dict[str, dict[str, str]], table: Table) -> None:
    for name, cells in rows.items():
        for device, other in rows.items():
            if cells[device] != other[name]:
                raise TopologyError(
                    f"{name} to {device} is {cells[device]}, but back it is {other[name]}",
                    table.rows[name].line,
                )


def _links(gpus: Sequence[str], rows: dict[str, dict[str, str]]) -> Iterator[Link]:
    for a, name in enumerate(gpus):
        for b in range(a + 1, len(gpus)):
            cell = rows[name][gpus[b]]
            bonded = _NVLINKS.fullmatch(cell)
            yield Link(a, b, nvlinks=int(bonded[1])) if bonded else Link(a, b, level=Level(cell))
