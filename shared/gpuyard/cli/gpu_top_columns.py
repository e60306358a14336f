"""The columns of the live view, and which of them fit side by side on a screen. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from gpuyard.cli import gpu_top_words as words
from gpuyard.cli.gpu_top_rows import Row
from gpuyard.cli.gpu_top_words import Glyphs
from gpuyard.cli.words import harmless

Curves = Mapping[str, Sequence[float | None]]
"""Utilisation of the last minutes by UUID, oldest first."""
HOT_C = 85.0
FULL = 0.97
_BAR = 10
_CURVE = 10
_CONDITION_STYLES = {
    "ok": "green",
    "out": "bold red",
    "foreign": "yellow",
    "silent": "dim",
    "unknown": "magenta",
}


class Span(NamedTuple):
    """Some text of one style."""

    text: str
    style: str = ""


class Extras(NamedTuple):
    """What a cell needs besides its row."""

    curves: Curves
    glyphs: Glyphs = words.BLOCKS


class Column(NamedTuple):
    """`gap` is left free behind it. With `fits` it is as wide as what is in it, at most `most`."""

    name: str
    header: str
    cell: Callable[[Row, Extras], Span]
    most: int
    right: bool = False
    gap: int = 2
    fits: bool = False


class Placed(NamedTuple):
    """A column as wide as it is on this screen."""

    column: Column
    width: int

    def fitted(self, text: str) -> str:
        """The text, cut or filled up to the width, and the gap."""
        text = cut(text, self.width)
        if self.column.right:
            text = " " * (self.width - cell_len(text)) + text
        return set_cell_size(text, self.width + self.column.gap)


def fitting(rows: Sequence[Row], extras: Extras, width: int) -> list[Placed]:
    """The columns that a screen of this width has room for."""
    placed = [
        Placed(column, _width(column, rows, extras))
        for column in COLUMNS
        if extras.curves or column.name != "curve"
    ]
    for name in DROPPED_FIRST:
        if total(placed) <= width:
            break
        placed = [each for each in placed if each.column.name != name]
    return placed


def total(placed: Iterable[Placed]) -> int:
    """Their width together, gaps included."""
    return sum(each.width + each.column.gap for each in placed)


def cut(text: str, width: int) -> str:
    """The text, with an ellipsis where it had to be shortened."""
    if cell_len(text) <= width:
        return text
    return f"{set_cell_size(text, width - 1)}…" if width > 0 else ""


def _width(column: Column, rows: Sequence[Row], extras: Extras) -> int:
    """Of all rows, not only those on the screen, so that columns stay where they are while scrolling."""
    if not column.fits:
        return column.most
    widest = max((cell_len(text) for text in {column.cell(row, extras).text for row in rows}), default=0)
    return min(max(widest, len(column.header)), column.most)


def _node(row: Row, _: Extras) -> Span:
    return Span(row.node)


def _index(row: Row, _: Extras) -> Span:
    return Span(str(row.index))


def _model(row: Row, _: Extras) -> Span:
    return Span(harmless(words.short_model(row.model)))


def _utilisation_bar(row: Row, extras: Extras) -> Span:
    return Span(words.bar(row.utilisation, _BAR, extras.glyphs), "green")


def _utilisation(row: Row, _: Extras) -> Span:
    return Span(words.percent(row.utilisation))


def _memory_bar(row: Row, extras: Extras) -> Span:
    part = words.part_of(row.memory_used_bytes, row.memory_bytes)
    return Span(words.bar(part, _BAR, extras.glyphs), "red" if (part or 0.0) > FULL else "cyan")


def _memory(row: Row, _: Extras) -> Span:
    return Span(words.memory(row.memory_used_bytes, row.memory_bytes))


def _power(row: Row, _: Extras) -> Span:
    return Span(words.power(row.power_w, row.power_limit_w))


def _temperature(row: Row, _: Extras) -> Span:
    return Span(words.temperature(row.temperature_c), "red" if (row.temperature_c or 0.0) >= HOT_C else "")


def _curve(row: Row, extras: Extras) -> Span:
    return Span(words.curve(extras.curves.get(row.uuid, ()), _CURVE, extras.glyphs), "green")


def _job(row: Row, _: Extras) -> Span:
    return Span(row.job, "bold") if row.job else Span("-", "dim")


def _owner(row: Row, _: Extras) -> Span:
    return Span(harmless(row.owner or ""))


def _health(row: Row, _: Extras) -> Span:
    reason = row.health_reason if row.heard else ""
    text = f"{row.condition}: {harmless(reason)}" if reason else row.condition
    return Span(text, _CONDITION_STYLES[row.condition])


COLUMNS = (
    Column("node", "NODE", _node, 24, fits=True),
    Column("gpu", "GPU", _index, 4, right=True),
    Column("model", "MODEL", _model, 16, fits=True),
    Column("utilisation bar", "", _utilisation_bar, _BAR, gap=1),
    Column("utilisation", "UTIL", _utilisation, 5, right=True),
    Column("memory bar", "", _memory_bar, _BAR, gap=1),
    Column("memory", "MEMORY", _memory, 13, right=True),
    Column("power", "POWER", _power, 11, right=True),
    Column("temperature", "TEMP", _temperature, 6, right=True),
    Column("curve", "10 MINUTES", _curve, _CURVE),
    Column("job", "JOB", _job, 28, fits=True),
    Column("owner", "OWNER", _owner, 12, fits=True),
    Column("health", "HEALTH", _health, 8),
)
DROPPED_FIRST = (
    "memory bar",
    "curve",
    "model",
    "utilisation bar",
    "owner",
    "power",
    "temperature",
    "memory",
    "utilisation",
)
"""What a narrow screen leaves out, in this order."""
