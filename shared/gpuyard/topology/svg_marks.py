"""The few SVG elements that pictures are made of. Same marks, same bytes; text is escaped here."""

import re
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Of a proportional face, on average. A little too wide rather than too narrow.
_CHARACTER = 0.58


@dataclass(frozen=True, slots=True)
class Rect:
    """Where something is, in pixels; y grows downwards."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height


def text_width(words: str, size: float) -> float:
    """About how wide a line of text will be."""
    return len(words) * size * _CHARACTER


def shortened(words: str, size: float, width: float) -> str:
    """As much of a line as fits."""
    fits = max(int(width / (size * _CHARACTER)), 1)
    return words if len(words) <= fits else words[: fits - 1].rstrip(" ,-") + "…"


def element(tag: str, *children: str, **attributes: float | str) -> str:
    """One element around marks; `_` in an attribute's name stands for `-`."""
    given = "".join(
        f" {name.replace('_', '-')}={quoteattr(_clean(value))}" for name, value in attributes.items()
    )
    inside = "".join(children)
    return f"<{tag}{given}>{inside}</{tag}>" if inside else f"<{tag}{given}/>"


def box(rect: Rect, fill: str, stroke: str = "none", radius: float = 8, **attributes: float | str) -> str:
    """A rounded rectangle."""
    return element(
        "rect",
        x=rect.x,
        y=rect.y,
        width=rect.width,
        height=rect.height,
        rx=radius,
        fill=fill,
        stroke=stroke,
        **attributes,
    )


def phrase(
    text: str,
    x: float,
    y: float,
    size: float,
    fill: str,
    *,
    anchor: str = "middle",
    **attributes: float | str,
) -> str:
    """One line of text on the base line y."""
    return element(
        "text", written(text), x=x, y=y, font_size=size, fill=fill, text_anchor=anchor, **attributes
    )


def written(text: str) -> str:
    """Any text as it may stand between tags."""
    return escape(_clean(text))


def line(points: list[tuple[float, float]], stroke: str, width: float, **attributes: float | str) -> str:
    """Straight from point to point."""
    path = "M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
    return element("path", d=path, fill="none", stroke=stroke, stroke_width=width, **attributes)


def arch(left: float, right: float, height: float, stroke: str, width: float) -> str:
    """A smooth arch with its feet on y = 0. The control points lie above what it reaches."""
    top = _number(-height * 4 / 3)
    path = f"M{_number(left)} 0C{_number(left)} {top} {_number(right)} {top} {_number(right)} 0"
    return element("path", d=path, fill="none", stroke=stroke, stroke_width=width, stroke_linecap="round")


def _clean(value: float | str) -> str:
    return _NOT_IN_XML.sub(" ", value) if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
