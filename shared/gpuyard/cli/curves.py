"""What is to be drawn of series: which axis, which points, which band over many ranks. Pure."""

import math
from collections.abc import Callable, Sequence
from statistics import quantiles
from typing import NamedTuple

from gpuyard.client.series import Series
from gpuyard.contracts.series import EPOCH, PROGRESS, STEP

MOST_POINTS = 2000
"""A curve that has more is thinned: no picture is wider."""
MOST_CURVES = 8
"""More ranks are shown as a band, with each rank's curve faint behind it."""
_BINS = 300
_MARKS = 40
_LOG_FACTOR = 1000.0


class Curve(NamedTuple):
    """One rank's points. `bad_xs`: where its number was NaN or infinite."""

    rank: int
    xs: list[float]
    ys: list[float]
    bad_xs: list[float]


class Band(NamedTuple):
    """All ranks at each place of the axis, from left to right: the five numbers of a box plot."""

    xs: list[float]
    least: list[float]
    lower: list[float]
    """A quarter of the ranks is below."""
    middle: list[float]
    upper: list[float]
    most: list[float]


class Panel(NamedTuple):
    """All ranks' curves of one name. Where they are many: their band, and the rank farthest from it."""

    name: str
    x_label: str
    is_log: bool
    curves: list[Curve]
    band: Band | None = None
    farthest: Curve | None = None


def panels_of(series: Sequence[Series]) -> list[Panel]:
    """One panel for each name, losses first. Counters only if there is nothing else."""
    by_name: dict[str, list[Series]] = {}
    for one in series:
        by_name.setdefault(one.name, []).append(one)
    telling = {name: group for name, group in by_name.items() if name not in (STEP, EPOCH, PROGRESS)}
    start_s = min((one.at_s[0] for one in series), default=0.0)
    return [_panel(name, group, start_s) for name, group in sorted((telling or by_name).items(), key=_order)]


def _order(item: tuple[str, list[Series]]) -> tuple[int, str]:
    name = item[0]
    kinds = ("loss", "acc", "val", "lr", "learning_rate", "norm")
    return next((place for place, kind in enumerate(kinds) if kind in name), len(kinds)), name


def _panel(name: str, group: Sequence[Series], start_s: float) -> Panel:
    by_step = name != STEP and any(not math.isnan(step) for one in group for step in one.steps)
    unit_s, unit = (1.0, "") if by_step else _unit(max(one.at_s[-1] for one in group) - start_s)
    curves = [_curve(one, by_step=by_step, start_s=start_s, unit_s=unit_s) for one in group]
    ys = [y for curve in curves for y in curve.ys]
    is_log = bool(ys) and min(ys) > 0 and max(ys) / min(ys) > _LOG_FACTOR
    panel = Panel(name, "step" if by_step else f"time ({unit})", is_log, curves)
    return panel if len(curves) <= MOST_CURVES else _with_band(panel)


def _unit(span_s: float) -> tuple[float, str]:
    units = ((86400.0, "days"), (3600.0, "h"), (60.0, "min"))
    return next((unit for unit in units if span_s > 2 * unit[0]), (1.0, "s"))


def _curve(series: Series, *, by_step: bool, start_s: float, unit_s: float) -> Curve:
    where = series.steps if by_step else [(at_s - start_s) / unit_s for at_s in series.at_s]
    points = [(x, y) for x, y in zip(where, series.values, strict=True) if not math.isnan(x)]
    good = _thinned([point for point in points if math.isfinite(point[1])])
    bad_xs = [x for x, y in points if not math.isfinite(y)]
    return Curve(series.rank, [x for x, _ in good], [y for _, y in good], _apart(bad_xs, points))


def _apart(bad_xs: Sequence[float], points: Sequence[tuple[float, float]]) -> list[float]:
    """Those that would be seen as different marks."""
    if not bad_xs:
        return []
    width = (points[-1][0] - points[0][0]) / _MARKS
    kept = [bad_xs[0]]
    for x in bad_xs:
        if x >= kept[-1] + width:
            kept.append(x)
    return kept


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The lowest and the highest point of each stretch, so that no peak gets lost."""
    if len(points) <= MOST_POINTS:
        return points
    size = -(-len(points) * 2 // MOST_POINTS)
    kept = []
    for begin in range(0, len(points), size):
        stretch = range(begin, min(begin + size, len(points)))
        ends = {min(stretch, key=lambda i: points[i][1]), max(stretch, key=lambda i: points[i][1])}
        kept += [points[index] for index in sorted(ends)]
    return kept


def _with_band(panel: Panel) -> Panel:
    xs = sorted({x for curve in panel.curves for x in curve.xs})
    if not xs:
        return panel
    place = _places(xs)
    found: dict[float, list[float]] = {}
    for curve in panel.curves:
        for x, y in zip(curve.xs, curve.ys, strict=True):
            found.setdefault(place(x), []).append(y)
    places = sorted(found)
    columns = zip(*(_five(found[x]) for x in places), strict=True)
    band = Band(places, *map(list, columns))
    middle = dict(zip(band.xs, band.middle, strict=True))

    def distance(curve: Curve) -> float:
        gaps = [abs(y - middle[place(x)]) for x, y in zip(curve.xs, curve.ys, strict=True)]
        return math.fsum(gaps) / len(gaps) if gaps else 0.0

    return panel._replace(band=band, farthest=max(panel.curves, key=distance))


def _places(xs: Sequence[float]) -> Callable[[float], float]:
    """Places on the axis: the steps themselves, or shares of it where there are too many."""
    if len(xs) <= _BINS:
        return lambda x: x
    first, width = xs[0], (xs[-1] - xs[0]) / _BINS
    return lambda x: first + width * (min(int((x - first) / width), _BINS - 1) + 0.5)


def _five(values: Sequence[float]) -> tuple[float, float, float, float, float]:
    quarters = quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return min(values), quarters[0], quarters[1], quarters[2], max(values)
