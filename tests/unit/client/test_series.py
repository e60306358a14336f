import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.client.series import Point, Series, Steps, Summary, collect, points_of, summarize
from gpuyard.contracts.series import Number, NumberRow


def row(seq: int, **numbers: float | tuple[float, float]) -> NumberRow:
    """A row one second after the one before it."""
    found = []
    for name, value in numbers.items():
        at, of = value if isinstance(value, tuple) else (value, None)
        found.append(Number(name, float(at), None if of is None else float(of)))
    return NumberRow(seq, float(seq), tuple(found))


def steps_of(*rows: NumberRow) -> list[float | None]:
    steps = Steps()
    return [steps.at(one) for one in rows]


def test_a_step_holds_until_the_next() -> None:
    assert steps_of(row(0, loss=1), row(1, step=5), row(2, val_loss=1), row(3, step=6, loss=1)) == [
        None,
        5,
        5,
        6,
    ]


def test_steps_that_begin_anew_in_each_epoch_are_counted_on() -> None:
    found = steps_of(
        *(row(0, epoch=1), row(1, step=(1, 2)), row(2, step=(2, 2))),
        *(row(3, epoch=2), row(4, step=(1, 2)), row(5, step=(2, 2), epoch=2), row(6, step=(1, 2), epoch=3)),
    )
    assert found == [None, 1, 2, 2, 3, 4, 5]


def test_without_a_total_the_last_step_tells_how_long_an_epoch_is() -> None:
    """Counted from 0: 0, 1, 2, and again."""
    found = steps_of(*(row(n, epoch=n // 3, step=n % 3) for n in range(7)))
    assert found == [0, 1, 2, 3, 4, 5, 6]


def test_steps_that_count_on_through_epochs_stay_as_they_are() -> None:
    assert steps_of(*(row(n, epoch=n // 3, step=n) for n in range(7))) == list(range(7))


def test_a_step_that_falls_back_without_an_epoch_does_so() -> None:
    assert steps_of(row(0, step=9), row(1, step=2)) == [9, 2]


@given(st.integers(1, 6), st.integers(2, 6), st.booleans())
def test_any_training_has_one_axis(epochs: int, per_epoch: int, has_totals: bool) -> None:
    rows = [
        row(0, epoch=epoch, step=(step, per_epoch) if has_totals else step)
        for epoch in range(1, epochs + 1)
        for step in range(1, per_epoch + 1)
    ]
    found = [step for step in steps_of(*rows) if step is not None]
    assert found == sorted(found)
    if has_totals:
        assert found == list(range(1, epochs * per_epoch + 1))


def test_points_know_their_line() -> None:
    points = list(points_of(3, [row(7, step=1, loss=0.5)], Steps()))
    assert points == [Point("step", 3, 1, 1, 7.0, 7), Point("loss", 3, 1, 0.5, 7.0, 7)]


def series(name: str, rank: int, *values: float, at_s: float = 0.0) -> Series:
    found = Series(name, rank)
    for step, value in enumerate(values):
        found.add(Point(name, rank, float(step), value, at_s + step, step))
    return found


def test_series_are_sorted_by_name_and_rank() -> None:
    points = [Point(name, rank, None, 1.0, 0.0, 0) for name, rank in (("b", 1), ("a", 2), ("b", 0), ("b", 1))]
    found = collect(points)
    assert [(one.name, one.rank, len(one)) for one in found] == [("a", 2, 1), ("b", 0, 1), ("b", 1, 2)]
    assert math.isnan(found[0].steps[0])


def test_a_summary_is_over_all_ranks_and_the_newest_value_is_the_last() -> None:
    (summary,) = summarize([series("loss", 0, 4, 1, at_s=5.0), series("loss", 1, 3, 2)])
    assert summary == Summary("loss", 2, 4, 1.0, 1.0, 4.0, 2.5, 0, None)


def test_nan_is_told_and_not_reckoned_with() -> None:
    (summary,) = summarize([series("loss", 0, 1, 2, 3), series("loss", 1, 1, math.nan, math.inf)])
    assert (summary.least, summary.most, summary.mean, summary.bad_points) == (1, 3, 1.75, 2)
    assert summary.first_bad is not None
    assert (summary.first_bad.rank, summary.first_bad.step) == (1, 1.0)


def test_a_series_of_nan_has_no_mean() -> None:
    (summary,) = summarize([series("loss", 0, math.nan)])
    assert (summary.least, summary.most, summary.mean) == (None, None, None)
    assert math.isnan(summary.last)


def test_names_have_a_summary_each() -> None:
    assert [one.name for one in summarize([series("b", 0, 1), series("a", 0, 1)])] == ["a", "b"]
    assert summarize([]) == []
    assert pytest.approx(0.2) == summarize([series("x", 0, 0.1, 0.3)])[0].mean
