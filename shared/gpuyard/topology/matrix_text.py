"""The matrix of `nvidia-smi topo -m`, read from text.

The text comes from files, web pages and mails, so tabs, blanks, terminal codes and columns may be
damaged. What is damaged beyond doubt is refused: a placement built on a guessed matrix is worse than
none. Names may repeat nowhere, every pair is stated twice and both must agree, every GPU of the header
must have its whole row. Linear in the length of the text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.hardware import Level, Link, Nic

# Every pair is a link, and the inventory must fit into one message.
MAX_GPUS = 128

_TERMINAL_CODE = re.compile(r"(?:\x1b|\^\[)\[[0-9;]*m")
_GPU = re.compile(r"GPU(0|[1-9][0-9]{0,3})")
_NAME = re.compile(r"[A-Za-z][A-Za-z_]*[0-9][A-Za-z0-9_.:-]*")
_GLUED = re.compile(r"GPU(?:0|[1-9][0-9]{0,3})|NIC[0-9]+|mlx[0-9]_[0-9]+")
_NVLINKS = re.compile(r"NV([1-9][0-9]?)")
_CPU_LIST = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")
_WORD = re.compile(r"\S+")
_TITLES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_SELF = "X"
# Drivers of 2017 and before call SYS by its older name.
_LEVELS = {level.value: level for level in Level} | {"SOC": Level.SYSTEM}


class TopologyError(InvalidSpec):
    """The text is no complete topology matrix; `line` is where that was seen, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(
            f"line {line}: {message}",
            "Save the whole output of `nvidia-smi topo -m` to a file, without editing it.",
            line=line,
        )
        self.line = line


@dataclass(frozen=True, slots=True)
class Affinity:
    """The CPU side of a GPU. A NUMA cell that names several nodes is unknown."""

    cpus: str | None = None
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """What one matrix says. Links have no bandwidth yet, and no PCIe level where NVLink hides it."""

    gpus: tuple[Affinity, ...]
    links: tuple[Link, ...]
    nics: tuple[Nic, ...]


@dataclass(frozen=True, slots=True)
class _Header:
    devices: tuple[str, ...]
    titles: tuple[str, ...]
    line: int

    @property
    def gpus(self) -> list[str]:
        return [f"GPU{index}" for index in range(sum(map(_is_gpu, self.devices)))]


@dataclass(frozen=True, slots=True)
class _Row:
    cells: dict[str, str]
    affinity: Affinity
    line: int


def parse_topology(text: str) -> Topology:
    """Read a matrix.

    Raises:
        TopologyError: it is cut, contradicts itself, or is none at all. Nothing else, whatever the text.

    """
    lines = _matrix_lines(text)
    header = _parse_header(lines)
    rows: dict[str, _Row] = {}
    for number, line in lines:
        name, row = _parse_row(line, number, header)
        if name in rows:
            raise TopologyError(f"a second row for {name}", number)
        rows[name] = row
    _check_complete(header, rows)
    return Topology(
        tuple(rows[name].affinity for name in header.gpus),
        tuple(_links(header.gpus, rows)),
        tuple(_nics(header, rows)),
    )


def _matrix_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that may carry the matrix, numbered; comments and blank ones left out, the legend ends it."""
    for number, raw in enumerate(text.split("\n"), start=1):
        line = _TERMINAL_CODE.sub("", raw)
        if line.strip().startswith("Legend:"):
            return
        if line.strip() and not line.startswith("#"):
            yield number, line


def _parse_header(lines: Iterator[tuple[int, str]]) -> _Header:
    number, line = next(lines, (1, ""))
    rest = " ".join(line.split())
    titles: list[str] = []
    for title in reversed(_TITLES):
        if rest.endswith(title):
            rest = rest.removesuffix(title).rstrip()
            titles.insert(0, title)
    devices = tuple(name for word in rest.split() for name in _names(word, number))
    _check_devices(devices, number)
    return _Header(devices, tuple(titles), number)


def _names(word: str, line: int) -> list[str]:
    """The device names in a word of the header: one, or several that lost the tabs between them."""
    if _GPU.fullmatch(word):
        return [word]
    glued = _GLUED.findall(word)
    if "".join(glued) == word:
        return glued
    if _NAME.fullmatch(word) and "GPU" not in word and not _NVLINKS.fullmatch(word):
        return [word]
    raise TopologyError(f"`{word[:40]}` is no device name, so this is no header row", line)


def _check_devices(devices: Sequence[str], line: int) -> None:
    found = [name for name in devices if _is_gpu(name)]
    if not found:
        raise TopologyError("the header row, which names the GPUs, is missing", line)
    if len(found) > MAX_GPUS:
        raise TopologyError(f"{len(found)} GPUs, more than {MAX_GPUS}", line)
    if len(set(devices)) < len(devices):
        raise TopologyError("the header names a device twice", line)
    if set(found) != {f"GPU{index}" for index in range(len(found))}:
        raise TopologyError(
            f"the GPUs are not numbered from 0 to {len(found) - 1}: a column is missing", line
        )


def _is_gpu(name: str) -> bool:
    return _GPU.fullmatch(name) is not None


def _parse_row(line: str, number: int, header: _Header) -> tuple[str, _Row]:
    words = list(_WORD.finditer(line))
    name, cells = words[0].group(), words[1 : len(header.devices) + 1]
    if name not in header.devices:
        raise TopologyError(f"`{name[:40]}` is not in the header", number)
    if len(cells) < len(header.devices):
        raise TopologyError(f"the row of {name} is cut: {len(cells)} of {len(header.devices)} cells", number)
    symbols = (_LEVELS.get(cell.group(), cell.group()) for cell in cells)
    found = dict(zip(header.devices, symbols, strict=True))
    _check_cells(name, found, number)
    rest = line[cells[-1].end() :]
    affinity = _parse_affinity(rest, header.titles, number) if _is_gpu(name) else Affinity()
    return name, _Row(found, affinity, number)


def _check_cells(name: str, cells: dict[str, str], line: int) -> None:
    for device, cell in cells.items():
        if (cell == _SELF) != (device == name):
            raise TopologyError(f"`{cell[:40]}` between {name} and {device}", line)
        between_gpus = _is_gpu(name) and _is_gpu(device)
        if cell not in (_SELF, *Level) and not (between_gpus and _NVLINKS.fullmatch(cell)):
            raise TopologyError(f"`{cell[:40]}` between {name} and {device} is no link", line)


def _parse_affinity(rest: str, titles: Sequence[str], line: int) -> Affinity:
    """Assign the cells behind the matrix. An empty cell leaves its column only if tabs tell which."""
    words = rest.split()
    if len(words) > len(titles):
        raise TopologyError(f"more cells than columns: `{rest.strip()[:40]}`", line)
    if len(words) < len(titles):
        words = _by_tabs(rest, len(titles))
    by_title = dict(zip(titles, words, strict=False))
    return Affinity(_cpus(by_title.get("CPU Affinity", ""), line), _number(by_title.get("NUMA Affinity", "")))


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
    if not _CPU_LIST.fullmatch(cell):
        raise TopologyError(f"`{cell[:40]}` is no list of CPUs", line)
    return cell


def _number(cell: str) -> int | None:
    return int(cell) if re.fullmatch(r"[0-9]{1,5}", cell) else None


def _check_complete(header: _Header, rows: dict[str, _Row]) -> None:
    end = max((row.line for row in rows.values()), default=header.line)
    missing = [name for name in header.gpus if name not in rows]
    if missing:
        raise TopologyError(f"the row of {missing[0]} is missing", end)
    nics = [name for name in header.devices if not _is_gpu(name)]
    given = [name for name in nics if name in rows]
    # Published texts often leave the network cards' rows out altogether; only some missing means a cut.
    if given and len(given) < len(nics):
        raise TopologyError("the rows of some network cards are missing", end)
    _check_symmetric(rows)


def _check_symmetric(rows: dict[str, _Row]) -> None:
    for name, row in rows.items():
        for device, other in rows.items():
            cell, back = row.cells[device], other.cells[name]
            if cell != back:
                raise TopologyError(f"{name} to {device} is {cell}, but back it is {back}", row.line)


def _links(gpus: Sequence[str], rows: dict[str, _Row]) -> Iterator[Link]:
    for a, name in enumerate(gpus):
        for b in range(a + 1, len(gpus)):
            cell = rows[name].cells[gpus[b]]
            bonded = _NVLINKS.fullmatch(cell)
            yield Link(a, b, nvlinks=int(bonded[1])) if bonded else Link(a, b, level=Level(cell))


def _nics(header: _Header, rows: dict[str, _Row]) -> Iterator[Nic]:
    for device in header.devices:
        if not _is_gpu(device):
            yield Nic(device, tuple(Level(rows[gpu].cells[device]) for gpu in header.gpus))
