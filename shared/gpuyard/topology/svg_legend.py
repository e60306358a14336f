"""The legend of a picture: rows of small samples with words."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gpuyard.topology.svg_marks import Rect, box, line, phrase, text_width

_SIZE, _SAMPLE, _ROW, _APART = 10.5, 24.0, 22.0, 20.0
_NOTE, _NOTE_ROW = 9.5, 14.0
_INK, _FAINT = "#52606d", "#7b8794"


@dataclass(frozen=True, slots=True)
class Item:
    """One sample and what it means."""

    shape: Literal["line", "box"]
    fill: str
    edge: str
    words: str
    width: float = 1.2


def legend(items: Iterable[Item], space: Rect) -> tuple[list[str], float]:
    """The marks of a legend in rows that begin at `space`, and where they end."""
    marks: list[str] = []
    x, y = space.x, space.y
    for item in items:
        width = _SAMPLE + 7 + text_width(item.words, _SIZE)
        if x > space.x and x + width > space.right:
            x, y = space.x, y + _ROW
        marks += [
            _sample(item, x, y),
            phrase(item.words, x + _SAMPLE + 7, y + 4, _SIZE, _INK, anchor="start"),
        ]
        x += width + _APART
    return marks, y


def paragraph(notes: Iterable[str], space: Rect) -> tuple[list[str], float]:
    """Notes one behind the other in as few lines as they need, and where they end."""
    lines: list[str] = []
    for note in notes:
        longer = f"{lines[-1]}; {note}" if lines else note
        if lines and text_width(longer, _NOTE) <= space.width:
            lines[-1] = longer
        else:
            lines.append(note)
    marks = [
        phrase(text, space.x, space.y + row * _NOTE_ROW, _NOTE, _FAINT, anchor="start")
        for row, text in enumerate(lines)
    ]
    return marks, space.y + (len(lines) - 1) * _NOTE_ROW


def _sample(item: Item, x: float, y: float) -> str:
    if item.shape == "line":
        return line([(x, y), (x + _SAMPLE, y)], item.edge, item.width)
    return box(Rect(x, y - 7, _SAMPLE, 14), item.fill, item.edge, 4, stroke_width=item.width)
