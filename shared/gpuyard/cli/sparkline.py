"""A curve in one line of text: eight heights of blocks, a cross where a number is NaN or infinite. Pure."""

import math
from collections.abc import Sequence
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"
BAD = "\N{MULTIPLICATION SIGN}"


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw values in their order, `width` characters at most; each shows the mean of its share."""
    if not values:
        return ""
    width = min(width, len(values))
    edges = [round(index * len(values) / width) for index in range(width + 1)]
    shares = [values[begin:end] for begin, end in pairwise(edges)]
    heights = [_mean(share) for share in shares]
    good = [height for height in heights if height is not None]
    least, most = min(good, default=0.0), max(good, default=0.0)
    return "".join(BAD if height is None else _block(height, least, most) for height in heights)


def _mean(share: Sequence[float]) -> float | None:
    """None if one of them is no number: that must be seen."""
    if not all(map(math.isfinite, share)):
        return None
    return math.fsum(share) / len(share)


def _block(height: float, least: float, most: float) -> str:
    if most == least:
        return BLOCKS[len(BLOCKS) // 2 - 1]
    return BLOCKS[min(len(BLOCKS) - 1, int((height - least) / (most - least) * len(BLOCKS)))]
