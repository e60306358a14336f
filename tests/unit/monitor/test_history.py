import math
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.codec import MAX_MESSAGE_BYTES, encode, validated
from gpuyard.contracts.hardware import GpuSample
from gpuyard.contracts.history import History, HistoryQuery
from gpuyard_monitor.core.history import KEPT_S, NodeHistory, Ring


def filled(*values: float | None, first: int = 0) -> NodeHistory:
    history = NodeHistory("n1")
    for second, value in enumerate(values, first):
        history.put([GpuSample("g0", value, 100, 5.0, None)], float(second))
    return history


def utilisation(answer: History) -> tuple[float | None, ...]:
    return answer.gpus[0].utilisation


def test_averages_end_now_and_gaps_are_none() -> None:
    history = filled(0.0, 0.5, 1.0, None, 0.5, None, None)
    answer = history.answer(HistoryQuery(last_s=9, step_s=3), at_s=50.0, mono_s=6.0)
    assert (answer.node, answer.until_s, answer.step_s) == ("n1", 50.0, 3.0)
    assert utilisation(answer) == (0.0, 0.75, 0.5)
    assert answer.gpus[0].memory_used_bytes == (100.0, 100.0, 100.0)
    assert answer.gpus[0].temperature_c == (None, None, None)


def test_time_without_readings_is_a_gap() -> None:
    history = filled(0.5)
    history.put([GpuSample("g0", 0.25)], 4.0)
    answer = history.answer(HistoryQuery(last_s=6, step_s=1), at_s=0.0, mono_s=5.0)
    assert utilisation(answer) == (0.5, None, None, None, 0.25, None)


def test_the_last_of_several_readings_in_a_second_stays() -> None:
    history = NodeHistory("n1")
    for at_s, value in ((1.0, 0.1), (1.5, 0.2), (1.9, 0.3)):
        history.put([GpuSample("g0", value)], at_s)
    assert utilisation(history.answer(HistoryQuery(1, 1), 0.0, 1.9)) == (0.3,)


def test_a_gpu_that_is_gone_is_forgotten_after_an_hour() -> None:
    history = filled(0.5)
    history.put([GpuSample("g1", 0.5)], KEPT_S)
    assert [gpu.uuid for gpu in history.answer(HistoryQuery(), 0.0, KEPT_S).gpus] == ["g0", "g1"]
    history.put([GpuSample("g1", 0.5)], KEPT_S + 1.0)
    assert [gpu.uuid for gpu in history.answer(HistoryQuery(), 0.0, KEPT_S).gpus] == ["g1"]


def test_the_largest_answer_fits_into_a_message() -> None:
    history = NodeHistory("n1")
    for second in range(KEPT_S):
        history.put(
            [GpuSample(f"GPU-{index:032d}", 0.123456, 2**36, 700.123, 70.1) for index in range(16)], second
        )
    answer = history.answer(HistoryQuery(last_s=3600, step_s=1), 0.0, KEPT_S)
    assert answer.step_s > 1
    assert len(encode(validated(answer))) < MAX_MESSAGE_BYTES


def test_an_hour_of_a_gpu_takes_less_than_60_kb() -> None:
    sample = [GpuSample("g0", 0.5)]
    history = NodeHistory("n1")
    tracemalloc.start()
    try:
        for second in range(KEPT_S + 50):
            history.put(sample, second)
        assert tracemalloc.get_traced_memory()[0] < 60_000
    finally:
        tracemalloc.stop()


@settings(max_examples=60)
@given(
    puts=st.lists(st.tuples(st.integers(0, 2 * KEPT_S), st.none() | st.floats(0, 1, width=32)), max_size=40),
    first=st.integers(0, KEPT_S),
    length=st.integers(0, 100),
)
def test_a_ring_averages_what_a_dictionary_would(
    puts: list[tuple[int, float | None]], first: int, length: int
) -> None:
    ring, kept, second = Ring(), {}, 0
    for passed_s, value in puts:
        second += passed_s
        ring.put(second, value)
        kept[second] = value
    start = second - first
    wanted = [kept.get(at) for at in range(start, start + length) if second - KEPT_S < at <= second]
    known = [value for value in wanted if value is not None]
    found = ring.average(start, start + length)
    if not known:
        assert found is None
    else:
        assert found is not None
        assert math.isclose(found, sum(known) / len(known), abs_tol=1e-9)


@settings(max_examples=60)
@given(last_s=st.floats(1, 3600), step_s=st.floats(1, 600))
def test_steps_cover_what_was_asked_for(last_s: float, step_s: float) -> None:
    answer = filled(*[0.5] * 30).answer(HistoryQuery(last_s, step_s), 0.0, 29.0)
    count = len(utilisation(answer))
    assert count == math.ceil(last_s / step_s)
    assert len(answer.gpus[0].power_w) == count
    assert utilisation(answer)[-1] == 0.5
