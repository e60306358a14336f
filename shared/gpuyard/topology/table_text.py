"""Tables of devices in text, as `nvidia-smi topo` prints them: a header that names the columns, then rows.

Owns the form, not the meaning. The text comes from files, web pages, mails and terminals, so prompts,
banners, legends and the output of other commands stand around a table, and tabs, blanks and terminal
codes may be damaged. Form is forgiven, content is not: whatever looks like a row must belong to a table,
no name may repeat, and a cut row is refused. Linear in the length of the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from gpuyard.contracts.errors import InvalidSpec

TITLES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
# Every pair is a link, and the inventory must fit into one message.
MAX_GPUS = 128
_MAX_DEVICES = 1024

_HINT = "Save the whole output of `nvidia-smi topo -m` to a file, without editing it."
# The escape character comes as itself, as a terminal shows it, or got lost.
_TERMINAL_CODE = re.compile(r"(?:\x1b|\^\[|\u241b)\[[0-9;?]*[A-Za-z]|\x1b\([A-Z0-9]|\[[0-9;]*m")
# Marks of a quotation at the start of a line, and the bars of a table in a page's source.
_MARKS = re.compile(r"^[ \t]*>[> \t]*|\|")
_GPU = re.compile(r"GPU(0|[1-9][0-9]{0,3})")
_DEVICE = re.compile(r"GPU(?:0|[1-9][0-9]{0,3})|NIC[0-9]+|mlx[0-9]_[0-9]+")
_NAME = re.compile(r"[A-Za-z][A-Za-z_]*[0-9][A-Za-z0-9_.:-]*")
_CELL = re.compile(r"X|BOARD|PIX|PXB|PHB|NODE|SYS|SOC|NV[0-9]+|OK|CNS|GNS|TNS|NS|DR|U")
_AFFINITY = re.compile(r"[0-9][0-9,-]*|N/A")
_LEGEND = re.compile(r"\s*(NIC[0-9]+)\s*:\s*(\S+)\s*")
_WORD = re.compile(r"\S+")


class TopologyError(InvalidSpec):
    """The text is no complete topology; `line` is where that was seen, from 1."""

    def __init__(self, message: str, line: int, hint: str = _HINT) -> None:
        super().__init__(f"line {line}: {message}", hint, line=line)
        self.line = line


@dataclass(slots=True)
class Row:
    """One cell for each device, and the text behind them."""

    line: int
    cells: list[str] = field(default_factory=list)
    rest: str = ""

    def take(self, text: str, count: int) -> None:
        """Take cells from a line, up to `count` in all; what remains goes to `rest`.

        Cells that lost the blank between them come apart: no symbol is the start of another. Tabs stop
        to tell columns apart once a row has been broken into several lines.
        """
        broken, end = bool(self.cells), 0
        for word in _WORD.finditer(text):
            if len(self.cells) >= count:
                break
            self.cells += _pieces(_CELL, word.group()) or [word.group()]
            end = word.end()
        self.rest = f"{self.rest} {text[end:]}".replace("\t", " ") if broken else text[end:]


@dataclass(slots=True)
class Table:
    """A header and its rows, by device. `above` is the text between the last table and this one."""

    line: int
    above: str
    devices: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()
    rows: dict[str, Row] = field(default_factory=dict)

    @property
    def gpus(self) -> list[str]:
        """Its GPUs, in the order of their numbers."""
        return [f"GPU{index}" for index in range(sum(map(is_gpu, self.devices)))]

    @property
    def last_line(self) -> int:
        """Where it ends."""
        return max((row.line for row in self.rows.values()), default=self.line)


def is_gpu(name: str) -> bool:
    """Whether a device is a GPU; the others are network cards."""
    return _GPU.fullmatch(name) is not None


def read_tables(text: str) -> list[Table]:
    """Find all tables; at least one.

    Raises:
        TopologyError: there is none, a row has no header, a name repeats, a row is cut.

    """
    reader = _Reader()
    for number, line in _lines(text):
        reader.read(number, line)
    # A header without any row says nothing, unless it is all there is.
    found = [table for table in reader.tables if table.rows] or reader.tables[:1]
    if not found:
        raise TopologyError("the header row, which names the GPUs, is missing", 1)
    for table in found:
        _check_devices(table)
        _check_rows(table)
    return found


def nic_names(text: str) -> dict[str, str]:
    """The names behind `NIC0`, `NIC1` ..., as the legend tells them.

    Raises:
        TopologyError: a card has two names, or two cards have one name.

    """
    legend: dict[str, str] = {}
    owners: dict[str, str] = {}
    for number, line in _lines(text):
        if match := _LEGEND.fullmatch(line):
            nic, name = match.groups()
            if legend.setdefault(nic, name) != name or owners.setdefault(name, nic) != nic:
                raise TopologyError(f"the legend contradicts itself about {nic}: {name[:40]}", number)
    return legend


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines without marks and terminal codes; comments are kept, they may name a command."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    for number, line in enumerate(text.split("\n"), start=1):
        yield number, _MARKS.sub("\t", _TERMINAL_CODE.sub("", line))


class _Reader:
    """Sorts lines into tables."""

    def __init__(self) -> None:
        self.tables: list[Table] = []
        self._names: set[str] = set()
        self._above: list[str] = []
        self._header_line = 0
        self._row: tuple[str, int] = ("", 0)
        """The last row and its last line: the line below may continue it."""

    def read(self, number: int, line: str) -> None:
        """Take the next line."""
        words = [] if line.lstrip().startswith("#") else line.split()
        if self._is_header(words, number):
            self._header_line = number
        elif self._is_row(words, number):
            self._add_row(words[0], line, number)
        elif self._is_rest_of_row(words, number):
            name = self._row[0]
            self.tables[-1].rows[name].take(line, len(self.tables[-1].devices))
            self._row = name, number
        else:
            self._above.append(line)

    def _is_header(self, words: list[str], number: int) -> bool:
        """Whether the line names columns and nothing else; if so, it opens a table or widens the last."""
        devices, titles = _columns(words)
        if not (devices or titles):
            return False
        last = self.tables[-1] if self.tables else None
        wrapped = last and not last.titles and self._header_line == number - 1
        if not (wrapped and self._names.isdisjoint(devices)):
            if not any(map(is_gpu, devices)):
                return False
            self.tables.append(Table(number, "\n".join(self._above)))
            self._names, self._above = set(), []
        self.tables[-1].devices += devices
        self.tables[-1].titles = titles
        self._names.update(devices)
        if len(self.tables[-1].devices) > _MAX_DEVICES:
            raise TopologyError(f"more than {_MAX_DEVICES} columns", number)
        return True

    def _is_row(self, words: list[str], number: int) -> bool:
        name, *cells = words[:2] or [""]
        has_cell = bool(cells and _CELL.fullmatch(cells[0]))
        if name in self._names:
            return has_cell or name not in self.tables[-1].rows
        if not (has_cell and _DEVICE.fullmatch(name)):
            return False
        if not self.tables:
            raise TopologyError("the header row, which names the GPUs, is missing above this row", number)
        raise TopologyError(f"`{name[:40]}` is not in the header", number)

    def _add_row(self, name: str, line: str, number: int) -> None:
        table = self.tables[-1]
        if name in table.rows:
            raise TopologyError(f"a second row for {name}", number)
        table.rows[name] = row = Row(number)
        row.take(line.lstrip()[len(name) :], len(table.devices))
        self._row = name, number

    def _is_rest_of_row(self, words: list[str], number: int) -> bool:
        """Narrow terminals break rows between cells."""
        name, line = self._row
        if not words or line != number - 1 or not self.tables or name not in self.tables[-1].rows:
            return False
        table, row = self.tables[-1], self.tables[-1].rows[name]
        if len(row.cells) < len(table.devices):
            return _CELL.fullmatch(words[0]) is not None
        room = len(table.titles) - len(row.rest.split()) if is_gpu(name) else 0
        return len(words) <= room and all(map(_AFFINITY.fullmatch, words))


def _columns(words: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The devices and titles that a line names; none if it holds anything else."""
    rest = " ".join(words)
    titles: list[str] = []
    for title in reversed(TITLES):
        if rest.endswith(title):
            rest = rest.removesuffix(title)
            titles.insert(0, title)
            rest = rest.rstrip()
    names = list(takewhile(bool, map(_names, rest.split())))
    if len(names) < len(rest.split()):
        return (), ()
    return tuple(name for word in names for name in word), tuple(titles)


def _names(word: str) -> list[str]:
    """The device names in a word: one, or several that lost the tabs between them; none if it is no name."""
    plain = _NAME.fullmatch(word) and "GPU" not in word and not _CELL.fullmatch(word)
    return _pieces(_DEVICE, word) or ([word] if plain else [])


def _pieces(pattern: re.Pattern[str], word: str) -> list[str]:
    """The word as a chain of matches, none left over; empty if it is no such chain."""
    found = pattern.findall(word)
    return found if "".join(found) == word else []


def _check_devices(table: Table) -> None:
    gpus = [name for name in table.devices if is_gpu(name)]
    if len(gpus) > MAX_GPUS:
        raise TopologyError(f"{len(gpus)} GPUs, more than {MAX_GPUS}", table.line)
    if len(set(table.devices)) < len(table.devices):
        raise TopologyError("the header names a device twice", table.line)
    if set(gpus) != set(table.gpus):
        missing = next(name for name in table.gpus if name not in gpus)
        raise TopologyError(f"the header lacks a column: {missing} of {len(gpus)} GPUs", table.line)


def _check_rows(table: Table) -> None:
    count = len(table.devices)
    for name, row in table.rows.items():
        if len(row.cells) != count:
            what = "is cut" if len(row.cells) < count else "is too long"
            raise TopologyError(f"the row of {name} {what}: {len(row.cells)} of {count} cells", row.line)
    missing = [name for name in table.gpus if name not in table.rows]
    if missing:
        raise TopologyError(f"the row of {missing[0]} is missing", table.last_line)
