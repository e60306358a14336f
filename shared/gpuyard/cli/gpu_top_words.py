"""Values of a GPU in a few characters: numbers, bars and curves. Unknown is `?` or blank, never 0. Pure."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

GIB = 2**30
_NOISE = re.compile(
    r"\b(NVIDIA|Tesla|GeForce|Generation|Blackwell|(Server|Workstation|Max-Q) Edition"
    r"|\d+ ?GB|HBM\w*|PCIe|SXM\d*)\b"
    r"|-(SXM|PCIE|PG|FHHL)\w*(-\d+GB)?|-\d+GB",
    re.IGNORECASE,
)


class Glyphs(NamedTuple):
    """What bars and curves are drawn with, the least first."""

    bar: str
    curve: str


BLOCKS = Glyphs(" ▏▎▍▌▋▊▉█", "▁▂▃▄▅▆▇█")
ASCII = Glyphs(" #", "_.-=+*#@")


@lru_cache(maxsize=1024)
def short_model(model: str) -> str:
    """`H100` for `NVIDIA H100 80GB HBM3`: what form and memory it has is told elsewhere."""
    return " ".join(_NOISE.sub(" ", model).split()) or model or "?"


def percent(part: float | None) -> str:
    return "?" if part is None else f"{part * 100:.0f} %"


def memory(used_bytes: int | None, all_bytes: int | None) -> str:
    """`12.3/80 GiB`."""
    used = "?" if used_bytes is None else f"{used_bytes / GIB:.1f}"
    return f"{used}/{'?' if all_bytes is None else f'{all_bytes / GIB:.0f}'} GiB"


def power(now_w: float | None, limit_w: float | None) -> str:
    """`312/700 W`; without a limit `312 W`."""
    now = "?" if now_w is None else f"{now_w:.0f}"
    return f"{now} W" if limit_w is None else f"{now}/{limit_w:.0f} W"


def temperature(celsius: float | None) -> str:
    return "?" if celsius is None else f"{celsius:.0f} °C"


def part_of(some: float | None, whole: float | None) -> float | None:
    """A fraction from 0 to 1; None if either is unknown."""
    return None if some is None or not whole else min(max(some / whole, 0.0), 1.0)


def bar(part: float | None, width: int, glyphs: Glyphs = BLOCKS) -> str:
    """A bar of this many cells at full length."""
    steps = len(glyphs.bar) - 1
    full, rest = divmod(round((part or 0.0) * width * steps), steps)
    return f"{glyphs.bar[-1] * full}{glyphs.bar[rest] if rest else ''}".ljust(width)


def curve(parts: Sequence[float | None], width: int, glyphs: Glyphs = BLOCKS) -> str:
    """The last values as one character each; a gap where nothing was read."""
    most = len(glyphs.curve) - 1
    drawn = "".join(
        " " if part is None else glyphs.curve[round(min(max(part, 0.0), 1.0) * most)] for part in parts
    )
    return drawn[-width:].rjust(width)
