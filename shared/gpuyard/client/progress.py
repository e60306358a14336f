"""How far a job is and when it will be done, from the numbers that it printed last. Pure.

What counts, the best first: steps of a known number (of the epoch, if the number of epochs is known, too),
epochs of a known number, a percentage. The rate is the median of the slopes between recent points that are a
quarter of the window apart: one evaluation or checkpoint in between does not change it, several do.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from msgspec import Struct

from gpuyard.contracts.series import EPOCH, PROGRESS, STEP, Number, NumberRow

MOST_POINTS = 40
SILENT_FACTOR = 10.0
"""An estimate is worth nothing any more when nothing came for so many times the usual interval ..."""
SILENT_S = 60.0
"""... and for so long."""


class JobProgress(Struct, frozen=True):
    """How far a job is, by the rank that said so last. Times are Unix times."""

    rank: int
    at_s: float
    fraction: float | None
    """Of the whole job, 0 to 1; None if only the epoch's end is known."""
    step: float | None = None
    steps: float | None = None
    epoch: float | None = None
    epochs: float | None = None
    steps_per_s: float | None = None
    left_s: float | None = None
    """Counted from the moment that was asked for."""
    end_at_s: float | None = None


class _Place(Struct, frozen=True):
    """Where a rank is at one moment."""

    at_s: float
    rank_of_source: int
    """0 steps, 1 epochs, 2 percentage."""
    fraction: float | None
    numbers: Mapping[str, Number]


def progress_of(ranks: Mapping[int, Sequence[NumberRow]], now_s: float) -> JobProgress | None:
    """The progress of an attempt.

    Args:
        ranks: The newest rows of each rank, oldest first.
        now_s: The time for which `left_s` is asked.

    Returns:
        None if no rank says how far it is.

    """
    known = {rank: places for rank, rows in ranks.items() if (places := _places(rows))}
    if not known:
        return None
    rank = min(known, key=lambda each: (known[each][-1].rank_of_source, -known[each][-1].at_s, each))
    source = known[rank][-1].rank_of_source
    return _progress(rank, [place for place in known[rank] if place.rank_of_source == source], now_s)


def _progress(rank: int, places: Sequence[_Place], now_s: float) -> JobProgress:
    newest = places[-1]
    step, epoch = newest.numbers.get(STEP), newest.numbers.get(EPOCH)
    recent = _one_each_moment(places)[-MOST_POINTS:]
    left_s = _left_s(recent, now_s)
    return JobProgress(
        rank=rank,
        at_s=newest.at_s,
        fraction=newest.fraction,
        step=step and step.value,
        steps=step and step.total,
        epoch=epoch and epoch.value,
        epochs=epoch and epoch.total,
        steps_per_s=_slope([(p.at_s, p.numbers[STEP].value) for p in recent if STEP in p.numbers]),
        left_s=left_s,
        end_at_s=None if left_s is None else now_s + left_s,
    )


def _places(rows: Iterable[NumberRow]) -> list[_Place]:
    """What rows say about how far their rank is; what was said before holds until it is said anew."""
    numbers: dict[str, Number] = {}
    places = []
    for row in rows:
        said = {number.name: number for number in row.numbers if number.name in (STEP, EPOCH, PROGRESS)}
        if not said:
            continue
        _forget_overtaken(numbers, said)
        numbers |= said
        if place := _place(row.at_s, numbers):
            places.append(place)
    return places


def _forget_overtaken(numbers: dict[str, Number], said: Mapping[str, Number]) -> None:
    """In a new epoch the step of the one before says nothing."""
    epoch, before = said.get(EPOCH), numbers.get(EPOCH)
    if epoch and before and epoch.value > before.value and STEP not in said:
        numbers.pop(STEP, None)


def _place(at_s: float, numbers: Mapping[str, Number]) -> _Place | None:
    step, epoch, progress = (_with_total(numbers.get(name)) for name in (STEP, EPOCH, PROGRESS))
    if step:
        return _Place(at_s, 0, _overall(_share(step), numbers.get(EPOCH)), dict(numbers))
    if epoch:
        return _Place(at_s, 1, _share(epoch), dict(numbers))
    if progress:
        return _Place(at_s, 2, _share(progress), dict(numbers))
    return None


def _with_total(number: Number | None) -> Number | None:
    return number if number and number.total and 0 <= number.value <= number.total else None


def _share(number: Number) -> float:
    assert number.total
    return number.value / number.total


def _overall(share: float, epoch: Number | None) -> float | None:
    """The share of the whole job, given that of the steps."""
    if epoch is None or epoch.value % 1:
        return share  # an epoch of 0.1 is itself computed from the steps of all epochs
    if _with_total(epoch) is None:
        return None
    assert epoch.total
    first, last = (epoch.value - 1) / epoch.total, epoch.value / epoch.total
    if epoch.value > 1 and first <= share <= last:
        return share  # steps of all epochs, it seems; if not, the difference is small here
    return min(1.0, max(first, 0.0) + share / epoch.total)


def _one_each_moment(places: Sequence[_Place]) -> list[_Place]:
    return list({place.at_s: place for place in places}.values())


def _left_s(places: Sequence[_Place], now_s: float) -> float | None:
    points = [(place.at_s, place.fraction) for place in places if place.fraction is not None]
    if not points:
        return None
    at_s, fraction = points[-1]
    if fraction >= 1.0:
        return 0.0
    per_s = _slope(points)
    if per_s is None or now_s - at_s > max(SILENT_S, SILENT_FACTOR * _interval_s(points)):
        return None
    return max(0.0, (1.0 - fraction) / per_s - (now_s - at_s))


def _interval_s(points: Sequence[tuple[float, float]]) -> float:
    return (points[-1][0] - points[0][0]) / max(len(points) - 1, 1)


def _slope(points: Sequence[tuple[float, float]]) -> float | None:
    """How fast a number grows; None if it does not, or that can't be told. What fell back began anew."""
    apart = max(1, len(points) // 4)
    slopes = [
        (later - sooner) / (later_s - sooner_s)
        for (sooner_s, sooner), (later_s, later) in zip(points, points[apart:], strict=False)
        if later_s > sooner_s and later >= sooner
    ]
    middle = median(slopes) if slopes else 0.0
    return middle if middle > 0 else None
