"""The status matrices of `nvidia-smi topo -p2p`, read from text: whether GPUs copy directly to each other.

The command shows one capability at a time, by its letters: `r` read, `w` write, `n` NVLink, `a` atomics,
`p` PCIe. The table itself does not say which, so it is taken from the command line or comment above it.
Status may differ by direction. Linear in the length of the text.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec.structs import replace

from gpuyard.contracts.hardware import Link
from gpuyard.topology.table_text import Row, Table, TopologyError, read_tables

_CAPABILITY = re.compile(r"topo\s+(?:-p2p|--p2p[a-z]*)[\s=]+([rwnap]+)\b")
_SELF = "X"


class Status(StrEnum):
    """What the driver says about a pair, by the names of its legend."""

    OK = "OK"
    CHIPSET = "CNS"
    GPU = "GNS"
    TOPOLOGY = "TNS"
    UNSUPPORTED = "NS"
    DISABLED = "DR"
    UNKNOWN = "U"


@dataclass(frozen=True, slots=True)
class PeerMatrix:
    """One table: `status[from][to]`, None for a GPU itself. `capability` is empty where nothing names it."""

    line: int
    capability: str
    status: tuple[tuple[Status | None, ...], ...]

    @property
    def copies(self) -> bool:
        """Whether it is about plain copies, rather than atomics or one kind of link."""
        return not self.capability or not {*self.capability}.isdisjoint("rw")


def parse_p2p(text: str) -> tuple[PeerMatrix, ...]:
    """Read all status matrices; none if the text holds only a matrix of links.

    Raises:
        TopologyError: a matrix is cut or holds something else, or there is no table at all.

    """
    return tuple(_matrix(table) for table in read_tables(text) if holds_status(table))


def holds_status(table: Table) -> bool:
    """Whether a table is of this kind: what it says about the first pair decides."""
    cells = (cell for row in table.rows.values() for cell in row.cells if cell != _SELF)
    return next(cells, "") in set(Status)


def with_p2p(links: Iterable[Link], matrices: Sequence[PeerMatrix]) -> tuple[Link, ...]:
    """The same links, saying whether copies work, in both directions and by every matrix about copies.

    Raises:
        TopologyError: a matrix has another number of GPUs than the links join.

    """
    known = tuple(links)
    count = max((link.b for link in known), default=0) + 1
    for matrix in matrices:
        if len(matrix.status) != count:
            raise TopologyError(f"{len(matrix.status)} GPUs, but the links join {count}", matrix.line)
    telling = [matrix for matrix in matrices if matrix.copies]
    return tuple(replace(link, p2p=_p2p(link, telling)) for link in known)


def _p2p(link: Link, matrices: Sequence[PeerMatrix]) -> bool | None:
    said = {
        way for matrix in matrices for way in (matrix.status[link.a][link.b], matrix.status[link.b][link.a])
    }
    if said - {Status.OK, Status.UNKNOWN}:
        return False
    return True if said == {Status.OK} else None


def _matrix(table: Table) -> PeerMatrix:
    if table.titles or len(table.gpus) < len(table.devices):
        raise TopologyError("peer-to-peer status has columns for GPUs only", table.line)
    named = _CAPABILITY.findall(table.above)
    status = tuple(_statuses(name, table.rows[name], table) for name in table.gpus)
    return PeerMatrix(table.line, named[-1] if named else "", status)


def _statuses(name: str, row: Row, table: Table) -> tuple[Status | None, ...]:
    if row.rest.strip():
        raise TopologyError(f"more cells than columns: `{row.rest.strip()[:40]}`", row.line)
    cells = dict(zip(table.devices, row.cells, strict=True))
    for device, cell in cells.items():
        if (cell == _SELF) != (device == name) or cell not in (_SELF, *Status):
            raise TopologyError(f"`{cell[:40]}` between {name} and {device} is no status", row.line)
    return tuple(None if gpu == name else Status(cells[gpu]) for gpu in table.gpus)
