import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.client.progress import SILENT_S, JobProgress, progress_of
from gpuyard.contracts.series import Number, NumberRow
from tests.unit.client.test_series import row


def steady(count: int, total: int, *, every_s: float = 2.0, start_s: float = 100.0) -> list[NumberRow]:
    return [
        NumberRow(n, start_s + n * every_s, (Number("step", n, total), Number("loss", 1.0)))
        for n in range(count)
    ]


def of(*rows: NumberRow, now_s: float | None = None) -> JobProgress:
    found = progress_of({0: list(rows)}, rows[-1].at_s if now_s is None else now_s)
    assert found is not None
    return found


def test_steps_of_a_known_number() -> None:
    found = of(*steady(46, 100))
    assert (found.fraction, found.step, found.steps) == (0.45, 45, 100)
    assert found.steps_per_s == pytest.approx(0.5)
    assert found.left_s == pytest.approx(110)
    assert found.end_at_s == pytest.approx(190 + 110)


def test_time_goes_on_while_nothing_is_printed() -> None:
    assert of(*steady(46, 100), now_s=200.0).left_s == pytest.approx(100)
    assert of(*steady(99, 100), now_s=320.0).left_s == 0.0


def test_a_job_that_fell_silent_has_no_end() -> None:
    found = of(*steady(46, 100), now_s=190 + SILENT_S + 1)
    assert (found.fraction, found.left_s, found.end_at_s) == (0.45, None, None)


def test_rare_steps_are_no_silence() -> None:
    assert of(*steady(46, 100, every_s=100.0), now_s=4600 + 900).left_s == pytest.approx(4600, rel=0.01)


def test_nothing_said_is_no_progress() -> None:
    assert progress_of({}, 0.0) is None
    assert progress_of({0: [row(0, loss=1.0)], 1: []}, 0.0) is None
    assert progress_of({0: [row(0, step=5)]}, 0.0) is None
    assert progress_of({0: [row(0, step=(5, 0))]}, 0.0) is None
    assert progress_of({0: [row(0, step=(5, 3))]}, 0.0) is None


def test_one_point_has_no_rate() -> None:
    found = of(row(0, step=(5, 10)))
    assert (found.fraction, found.left_s, found.steps_per_s) == (0.5, None, None)


def test_a_pause_for_an_evaluation_hardly_counts() -> None:
    rows = steady(20, 100)
    after = [r._replace(at_s=r.at_s + 300) for r in steady(40, 100)[20:]]
    assert of(*rows, *after).left_s == pytest.approx(122, rel=0.05)


def test_epochs_of_a_known_number() -> None:
    found = of(*(row(n, epoch=(n, 10), loss=1.0) for n in range(1, 5)))
    assert (found.fraction, found.epoch, found.epochs, found.step) == (0.4, 4, 10, None)
    assert found.left_s == pytest.approx(6)


def test_steps_of_an_epoch_of_a_known_number() -> None:
    rows = [row(0, epoch=(3, 10)), *(row(n, step=(n, 100)) for n in range(1, 51))]
    found = of(*rows)
    assert found.fraction == pytest.approx(0.25)
    assert (found.step, found.steps, found.epoch, found.epochs) == (50, 100, 3, 10)
    assert found.left_s == pytest.approx(750)


def test_steps_over_all_epochs_are_noticed() -> None:
    rows = [row(n, epoch=(n // 100 + 1, 10), step=(n, 1000)) for n in range(400, 451)]
    assert of(*rows).fraction == pytest.approx(0.45)


def test_in_a_new_epoch_the_old_step_says_nothing() -> None:
    rows = [row(0, epoch=(3, 10), step=(99, 100)), row(1, epoch=(4, 10))]
    assert of(*rows).fraction == pytest.approx(0.4)


def test_of_an_epoch_without_end_only_the_step_is_known() -> None:
    found = of(row(0, epoch=5, step=(450, 1000)), row(1, epoch=5, step=(460, 1000)))
    assert (found.fraction, found.left_s) == (None, None)
    assert (found.epoch, found.step, found.steps) == (5, 460, 1000)


def test_a_broken_epoch_is_reckoned_from_the_steps() -> None:
    rows = [row(n, epoch=n / 100, step=(n, 300)) for n in range(10, 60)]
    assert of(*rows).fraction == pytest.approx(59 / 300)


def test_a_percentage_is_better_than_nothing() -> None:
    assert of(row(0, progress=(45, 100))).fraction == 0.45
    assert of(row(0, progress=(45, 100)), row(1, epoch=(1, 10))).fraction == 0.1


def test_the_rank_that_spoke_last_counts() -> None:
    ranks = {
        0: [row(1, step=(1, 10))],
        1: [row(5, step=(5, 10))],
        2: [row(9, epoch=(9, 10))],
        3: [row(9, loss=1)],
    }
    found = progress_of(ranks, 10.0)
    assert found is not None
    assert (found.rank, found.fraction) == (1, 0.5)


def test_the_end_is_the_end() -> None:
    assert of(*steady(11, 10)).left_s == 0.0


@given(
    st.dictionaries(
        st.integers(0, 3),
        st.lists(
            st.builds(
                lambda seq, at_s, numbers: NumberRow(seq, at_s, tuple(numbers)),
                st.integers(0, 100),
                st.floats(0, 1e6),
                st.lists(
                    st.builds(
                        Number,
                        st.sampled_from(["step", "epoch", "progress", "loss"]),
                        st.floats(-10, 1e6) | st.integers(0, 20).map(float),
                        st.none() | st.integers(0, 1000).map(float),
                    ),
                    max_size=3,
                ),
            ),
            max_size=12,
        ),
    ),
    st.floats(0, 2e6),
)
def test_whatever_is_printed_the_answer_makes_sense(ranks: dict[int, list[NumberRow]], now_s: float) -> None:
    found = progress_of(ranks, now_s)
    if found is None:
        return
    assert found.fraction is None or 0 <= found.fraction <= 1
    assert found.left_s is None or (found.left_s >= 0 and math.isfinite(found.left_s))
    assert found.steps_per_s is None or found.steps_per_s > 0
    assert found.rank in ranks
