from hypothesis import given
from hypothesis import strategies as st

from gpuyard_logger.core.follow_buffer import FollowBuffer
from tests.unit.logger.batches import patient


def test_nothing_stored_nothing_trimmed() -> None:
    assert FollowBuffer(100, 60.0).trim_before(1e9) is None


def test_what_is_young_and_little_is_kept() -> None:
    buffer = FollowBuffer(100, 60.0)
    buffer.add(5, 100, now_s=10.0)
    assert buffer.trim_before(70.0) is None


def test_what_is_old_goes() -> None:
    buffer = FollowBuffer(100, 60.0)
    buffer.add(5, 10, now_s=10.0)
    buffer.add(9, 10, now_s=20.0)
    assert buffer.trim_before(70.5) == 6
    assert buffer.trim_before(70.5) is None
    assert buffer.trim_before(80.5) == 10


def test_what_is_too_much_goes() -> None:
    buffer = FollowBuffer(100, 60.0)
    for seq in range(1, 6):
        buffer.add(seq, 40, now_s=0.0)
    assert buffer.trim_before(0.0) == 4


@patient
@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 80), st.floats(0, 30)), max_size=30))
def test_only_stored_messages_are_trimmed(rounds: list[tuple[int, int, float]]) -> None:
    buffer, through_seq, now_s, trimmed = FollowBuffer(100, 60.0), 0, 0.0, 0
    for messages, round_bytes, pause_s in rounds:
        through_seq, now_s = through_seq + messages, now_s + pause_s
        buffer.add(through_seq, round_bytes, now_s)
        before = buffer.trim_before(now_s)
        if before is not None:
            assert trimmed < before <= through_seq + 1
            trimmed = before
