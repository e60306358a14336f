"""One picture of the live view: lines of styled text that fit the screen. Pure.

A line is a tuple of spans, so that two pictures can be compared line by line before anything is drawn.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from gpuyard.cli import words
from gpuyard.cli.gpu_top_columns import Curves, Extras, Placed, Span, cut, fitting, total
from gpuyard.cli.gpu_top_rows import Row
from gpuyard.cli.gpu_top_state import State, chosen
from gpuyard.cli.gpu_top_words import BLOCKS, Glyphs, percent

Line = tuple[Span, ...]


class Size(NamedTuple):
    """Of the screen, in characters."""

    width: int
    height: int


class Picture(NamedTuple):
    """What there is to draw, and with which glyphs."""

    rows: Sequence[Row]
    curves: Curves
    glyphs: Glyphs = BLOCKS
    notice: str = ""
    """What the viewer should know besides."""


HELP = (
    "sort by: u utilisation  m memory  p power  t temperature  n node  j job;  r the other way round",
    "/ filter by node, model, job, owner or health, Esc clears it;  f free GPUs only",
    "Up Down PgUp PgDn Home End scroll;  ? hides this;  q quits",
)


def frame(picture: Picture, state: State, size: Size) -> list[Line]:
    """The lines of the screen, at most as many as it has."""
    shown = chosen(picture.rows, state)
    extras = Extras(picture.curves, picture.glyphs)
    columns = fitting(picture.rows, extras, size.width)
    top = [_summary(picture), _header(columns, size.width)]
    rows = [
        _line(row, extras, columns, size.width)
        for row in shown[state.offset : state.offset + page_of(state, size)]
    ]
    bottom = _footer(state, len(shown), size)
    lines = [*top, *(rows or [(Span(_nothing(picture, state), "dim"),)])]
    lines += [()] * (size.height - len(lines) - len(bottom))
    return [_clipped(line, size.width) for line in [*lines, *bottom][: size.height]]


def _clipped(line: Line, width: int) -> Line:
    if sum(cell_len(span.text) for span in line) <= width:
        return line
    spans = []
    for text, style in line:
        spans.append(Span(cut(text, width), style))
        width -= cell_len(spans[-1].text)
    return tuple(spans)


def page_of(state: State, size: Size) -> int:
    """How many rows one screen shows."""
    return max(1, size.height - 3 - (len(HELP) if state.has_help else 0))


def _header(columns: Sequence[Placed], width: int) -> Line:
    text = "".join(each.fitted(each.column.header) for each in columns)
    return (Span(text.ljust(width), "reverse"),)


def _line(row: Row, extras: Extras, columns: Sequence[Placed], width: int) -> Line:
    """The last column has what is left of the line, for the reason why a GPU is out of service."""
    *before, last = columns
    spans = []
    for each in before:
        text, style = each.column.cell(row, extras)
        spans.append(Span(each.fitted(text), style if row.heard else "dim"))
    text, style = last.column.cell(row, extras)
    return (*spans, Span(cut(text, width - total(before)), style))


_USES = ("held", "free", "foreign", "out", "unknown", "silent")


def _summary(picture: Picture) -> Line:
    """How many GPUs are in which condition."""
    rows = picture.rows
    nodes = len({row.node for row in rows})
    uses = Counter(_use(row) for row in rows)
    told = ", ".join(f"{uses[use]} {use}" for use in _USES if uses[use])
    known = [row.utilisation for row in rows if row.utilisation is not None]
    busy = f", {percent(sum(known) / len(known))} busy" if known else ""
    text = f"{words.count(nodes, 'node')}, {words.count(len(rows), 'GPU')}{f': {told}' if told else ''}{busy}"
    notice = (Span(f"  {picture.notice}", "bold red"),) if picture.notice else ()
    return (Span(text, "bold"), *notice)


def _use(row: Row) -> str:
    if row.free:
        return "free"
    return "held" if row.condition == "ok" else row.condition


def _footer(state: State, count: int, size: Size) -> list[Line]:
    help_ = [(Span(text, "cyan"),) for text in HELP] if state.has_help else []
    if state.is_typing:
        return [*help_, (Span("filter: ", "bold"), Span(state.text), Span(" ", "reverse"))]
    first, last = min(state.offset + 1, count), min(state.offset + page_of(state, size), count)
    parts = (
        f"{first}-{last} of {count}",
        f"sorted by {state.sort}{', reversed' if state.reverse else ''}",
        f"filter `{state.text}`" if state.text else "",
        "free only" if state.free_only else "",
        "? help",
        "q quit",
    )
    return [*help_, (Span("  ".join(part for part in parts if part), "dim"),)]


def _nothing(picture: Picture, state: State) -> str:
    if not picture.rows:
        return "No GPUs are known yet."
    which = "free GPU" if state.free_only else "GPU"
    return f"No {which} matches `{state.text}`." if state.text else f"No {which} now."
