"""A job's numbers as curves: rows go in, one series for each name and rank comes out. Pure.

A number's step is the one in its own line, else the last one before it in its rank. Where steps begin anew in
each epoch they are counted on, so that a curve has one axis from beginning to end.
"""

import math
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuyard.contracts.series import EPOCH, STEP, NumberRow


class Point(NamedTuple):
    """One number: where it stands in training, when and in which line it was printed."""

    name: str
    rank: int
    step: float | None
    value: float
    at_s: float
    seq: int


class Series:
    """All points of one name and rank, in the order in which they were printed."""

    def __init__(self, name: str, rank: int) -> None:
        self.name = name
        self.rank = rank
        self.steps = array("d")
        """NaN where it is unknown."""
        self.values = array("d")
        self.at_s = array("d")

    def __len__(self) -> int:
        return len(self.values)

    def add(self, point: Point) -> None:
        self.steps.append(math.nan if point.step is None else point.step)
        self.values.append(point.value)
        self.at_s.append(point.at_s)


class Steps:
    """Counts the steps of one rank on, over its epochs."""

    def __init__(self) -> None:
        self._before = 0.0
        """Steps of the epochs that are over."""
        self._step: float | None = None
        self._total: float | None = None
        self._epoch: float | None = None
        self._is_new_epoch = False

    def at(self, row: NumberRow) -> float | None:
        """The step of a row; rows must come in their order."""
        for number in row.numbers:
            if number.name == EPOCH:
                self._is_new_epoch |= self._epoch is not None and number.value > self._epoch
                self._epoch = number.value
        for number in row.numbers:
            if number.name == STEP:
                self._move(number.value, number.total)
        return None if self._step is None else self._before + self._step

    def _move(self, step: float, total: float | None) -> None:
        if self._step is not None and step < self._step and self._is_new_epoch:
            self._before += self._total or self._step + 1
        self._is_new_epoch = False
        self._step, self._total = step, total


def points_of(rank: int, rows: Iterable[NumberRow], steps: Steps) -> Iterator[Point]:
    """The points in rows of one rank. The step itself is a point, too."""
    for row in rows:
        step = steps.at(row)
        for number in row.numbers:
            yield Point(number.name, rank, step, number.value, row.at_s, row.seq)


def collect(points: Iterable[Point]) -> list[Series]:
    """Sort points into series: by name, then rank."""
    found: dict[tuple[str, int], Series] = {}
    for point in points:
        key = point.name, point.rank
        if key not in found:
            found[key] = Series(*key)
        found[key].add(point)
    return [found[key] for key in sorted(found)]


class Summary(NamedTuple):
    """What can be said of a series over all its ranks. Numbers that are NaN or infinite are only counted."""

    name: str
    ranks: int
    points: int
    last: float
    least: float | None
    most: float | None
    mean: float | None
    bad_points: int
    first_bad: Point | None


def summarize(series: Iterable[Series]) -> list[Summary]:
    """One summary for each name."""
    by_name: dict[str, list[Series]] = {}
    for one in series:
        by_name.setdefault(one.name, []).append(one)
    return [_summary(name, group) for name, group in sorted(by_name.items())]


def _summary(name: str, group: list[Series]) -> Summary:
    good = [value for one in group for value in one.values if math.isfinite(value)]
    points = sum(map(len, group))
    bad = [point for one in group if (point := _first_bad(one))]
    newest = max(group, key=lambda one: one.at_s[-1])
    return Summary(
        name=name,
        ranks=len(group),
        points=points,
        last=newest.values[-1],
        least=min(good, default=None),
        most=max(good, default=None),
        mean=math.fsum(good) / len(good) if good else None,
        bad_points=points - len(good),
        first_bad=min(bad, key=lambda point: point.at_s, default=None),
    )


def _first_bad(series: Series) -> Point | None:
    for step, value, at_s in zip(series.steps, series.values, series.at_s, strict=True):
        if not math.isfinite(value):
            return Point(series.name, series.rank, None if math.isnan(step) else step, value, at_s, 0)
    return None
