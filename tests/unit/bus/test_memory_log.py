import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gpuyard.bus.memory_log import Log, Queue
from gpuyard.bus.port import Expect
from gpuyard.contracts.errors import Conflict
from gpuyard.contracts.subjects import Stream


def log(**settings: object) -> Log:
    return Log(Stream("S", ("s.>",), "A test's.", **settings))  # type: ignore[arg-type]


def test_ids_are_remembered_for_two_minutes() -> None:
    stream = log()
    first = stream.append("s.a", b"", {}, now_s=0.0, msg_id="m")
    assert stream.append("s.a", b"", {}, now_s=119.9, msg_id="m").duplicate
    later = stream.append("s.a", b"", {}, now_s=120.0, msg_id="m")
    assert (first.seq, later.seq, later.duplicate) == (1, 2, False)


def test_messages_die_at_their_age_and_at_their_time_to_live() -> None:
    stream = log(max_age_s=10.0)
    stream.append("s.a", b"", {}, now_s=0.0)
    stream.append("s.b", b"", {}, now_s=0.0, ttl_s=2.0)
    stream.append("s.c", b"", {}, now_s=0.0, ttl_s=60.0)
    stream.expire(1.9)
    assert list(stream.between(1, (">",))) == [1, 2, 3]
    stream.expire(2.0)
    assert list(stream.between(1, (">",))) == [1, 3]
    stream.expire(10.0)
    assert stream.last_seq == 3
    assert list(stream.between(1, (">",))) == []


def test_a_conflict_writes_nothing() -> None:
    stream = log()
    with pytest.raises(Conflict):
        stream.append("s.a", b"", {}, now_s=0.0, expect=Expect("s.a", 1))
    assert stream.last_seq == 0


def test_what_was_handed_out_and_trimmed_does_not_come_again() -> None:
    stream = log(kind="work")
    stream.append("s.a", b"", {}, now_s=0.0)
    queue = Queue(stream, ">", ack_wait_s=1.0, max_pending=10)
    assert queue.take(0.0) is not None
    stream.trim("", None)
    assert queue.take(5.0) is None
    assert queue.next_due_s() is None


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 3))
def test_per_subject_only_the_newest_stay(keys: list[str], per_subject: int) -> None:
    stream = log(per_subject=per_subject)
    for key in keys:
        stream.append(f"s.{key}", b"", {}, now_s=0.0)
    expected = sorted(
        seq
        for key in set(keys)
        for seq in [number for number, other in enumerate(keys, 1) if other == key][-per_subject:]
    )
    assert list(stream.between(1, (">",))) == expected
    assert stream.newest_of_each((">",)) == sorted(
        max(number for number, other in enumerate(keys, 1) if other == key) for key in set(keys)
    )


class Crew(RuleBasedStateMachine):
    """Two workers over one queue: every message is done once it is acknowledged, and none is forgotten."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.log = log(kind="work")
        self.queue = Queue(self.log, ">", ack_wait_s=5.0, max_pending=3)
        self.in_hand: dict[int, float] = {}
        self.open: set[int] = set()

    @rule()
    def submit(self) -> None:
        self.open.add(self.log.append("s.a", b"", {}, now_s=self.now_s).seq)

    @rule()
    def take(self) -> None:
        taken = self.queue.take(self.now_s)
        if taken is None:
            free = [seq for seq in self.open if self.in_hand.get(seq, -1.0) <= self.now_s]
            assert not free or len(self.in_hand) >= 3
            return
        seq = taken[0].seq
        assert seq in self.open
        assert self.in_hand.get(seq, -1.0) <= self.now_s
        self.in_hand[seq] = self.now_s + 5.0

    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        if self.in_hand:
            seq = data.draw(st.sampled_from(sorted(self.in_hand)))
            self.queue.ack(seq)
            del self.in_hand[seq]
            self.open.discard(seq)

    @rule(data=st.data(), delay_s=st.sampled_from([0.0, 2.0, 9.0]))
    def nak(self, data: st.DataObject, delay_s: float) -> None:
        if self.in_hand:
            seq = data.draw(st.sampled_from(sorted(self.in_hand)))
            self.queue.postpone(seq, self.now_s + delay_s)
            self.in_hand[seq] = self.now_s + delay_s

    @rule(seconds=st.sampled_from([0.5, 3.0, 6.0]))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @invariant()
    def nothing_is_forgotten(self) -> None:
        assert set(self.log.between(1, (">",))) == self.open

    @invariant()
    def not_too_many_are_out(self) -> None:
        assert len(self.in_hand) <= 3


TestCrew = Crew.TestCase
TestCrew.settings = settings(max_examples=50)
