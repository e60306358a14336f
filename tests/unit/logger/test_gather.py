from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.log import LogBatch
from gpuyard_logger.core.frame import RAW_BYTES
from gpuyard_logger.core.gather import Gather
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.sequence import START, Position
from tests.unit.logger.batches import JOB, batch, faulty_writing, is_true_to_number, raw
from tests.unit.logger.paper import PaperStore, seqs_of

STREAM = Stream(JOB, 1, 0)


def nothing(_stream: Stream) -> Position:
    return START


def test_what_was_taken_is_not_taken_again() -> None:
    gather = Gather(nothing)
    assert gather.take(batch(0, 5), 1, 0.0).batch == batch(0, 5)
    assert gather.take(batch(0, 5), 2, 0.0).batch is None
    taken = gather.take(batch(3, 9), 3, 0.0).batch
    assert taken is not None
    assert (taken.first_seq, taken.next_seq) == (5, 9)
    assert (gather.through_seq, gather.position(STREAM)) == (3, Position(9))


def test_what_is_stored_is_not_taken() -> None:
    gather = Gather(lambda _stream: Position(7, ended=True))
    assert gather.take(batch(0, 7, end=True), 1, 0.0).batch is None
    assert gather.open_bytes == 0
    assert gather.since_s is None


def test_skipped_numbers_are_told() -> None:
    gather = Gather(nothing)
    assert gather.take(batch(3, 5), 1, 0.0).missing_lines == 3
    assert gather.take(batch(5, 6), 2, 0.0).missing_lines == 0


def test_a_batch_without_lines_is_nothing_new() -> None:
    gather = Gather(nothing)
    empty = raw(b"", first_seq=0, next_seq=0)
    assert gather.take(empty, 1, 0.0).batch is None
    assert gather.take(raw(first_seq=9, next_seq=9), 2, 0.0).batch is None
    assert gather.position(STREAM) == START


def test_an_end_without_lines_is_sealed() -> None:
    gather, store = Gather(nothing), PaperStore()
    gather.take(batch(0, 0, end=True), 1, 0.0)
    store.seal(gather.begin())
    gather.sealed()
    assert store.position(STREAM) == Position(0, ended=True)


def test_memory_is_counted_for_lines_without_text() -> None:
    gather = Gather(nothing)
    for seq in range(1000):
        gather.take(raw(b"\n", first_seq=seq, next_seq=seq + 1), seq + 1, 0.0)
    assert gather.open_bytes > 1000 * 100


def test_full_frames_are_compressed_at_once() -> None:
    gather = Gather(nothing)
    text = (b"x" * 99 + b"\n") * (RAW_BYTES // 1000)
    lines = text.count(b"\n")
    for n in range(100):
        gather.take(raw(text, first_seq=n * lines, next_seq=(n + 1) * lines), n + 1, 0.0)
    assert gather.open_bytes < 1.2 * RAW_BYTES
    gather.begin()
    assert gather.fresh_bytes == 0
    assert gather.open_bytes > 0
    gather.sealed()
    assert gather.open_bytes == 0


def test_what_is_being_sealed_is_read_until_it_is_stored() -> None:
    gather = Gather(nothing)
    gather.take(batch(0, 5), 1, 0.0)
    gather.begin()
    gather.take(batch(5, 9), 2, 0.0)
    view = gather.view(JOB)
    assert [(frame.first_seq, frame.next_seq) for frame in view.frames(STREAM, 0)] == [(0, 5), (5, 9)]
    assert view.positions == {STREAM: Position(9)}
    gather.sealed()
    assert [frame.first_seq for frame in gather.view(JOB).frames(STREAM, 0)] == [5]


def test_a_view_stays_as_it_is() -> None:
    gather = Gather(nothing)
    gather.take(batch(0, 5), 1, 0.0)
    view = gather.view(JOB)
    gather.take(batch(5, 9), 2, 0.0)
    gather.begin()
    gather.sealed()
    assert [(frame.first_seq, frame.next_seq) for frame in view.frames(STREAM, 0)] == [(0, 5)]


def test_many_streams_are_forgotten_and_found_again() -> None:
    asked: list[Stream] = []

    def stored(stream: Stream) -> Position:
        asked.append(stream)
        return Position(5) if len(asked) > 10_000 else START

    gather = Gather(stored)
    for rank in range(10_000):
        gather.take(batch(0, 5, rank=rank), rank + 1, 0.0)
    assert gather.take(batch(0, 5, rank=0), 10_001, 0.0).batch is None, "it is still open"
    gather.begin()
    gather.sealed()
    for rank in range(10_000):
        assert gather.take(batch(0, 5, rank=rank), rank + 1, 0.0).batch is None


class Life:
    """A logger's life on paper, over a bus's stream: takes, seals, merges, dies."""

    def __init__(self, stream: list[LogBatch]) -> None:
        self.stream = stream
        self.store = PaperStore()
        self.trimmed = 0
        """Messages that are gone from the stream."""
        self.start()

    def start(self) -> None:
        """Begin anew: memory is gone; what is left in the stream is read again."""
        self.gather = Gather(self.store.position)
        self.read = self.trimmed

    def take(self) -> None:
        if self.read < len(self.stream):
            self.read += 1
            self.gather.take(self.stream[self.read - 1], self.read, 0.0)

    def seal(self) -> None:
        round_ = self.gather.begin()
        self.store.seal(round_)
        self.gather.sealed()

    def seal_and_trim(self) -> None:
        self.seal()
        self.trimmed = self.read

    def die_before_the_trim(self) -> None:
        self.seal()
        self.start()

    def die_before_the_seal(self) -> None:
        self.gather.begin()
        self.start()

    def merge(self, chosen: st.DataObject) -> None:
        if names := sorted(self.store.segments):
            self.store.merge(chosen.draw(st.lists(st.sampled_from(names), min_size=1)))

    def finish(self) -> None:
        while self.read < len(self.stream):
            self.take()


STEPS: list[Callable[[Life], None]] = [
    Life.take,
    Life.take,
    Life.take,
    Life.seal,
    Life.seal_and_trim,
    Life.die_before_the_trim,
    Life.die_before_the_seal,
]


@st.composite
def gapped(draw: st.DrawFn) -> list[LogBatch]:
    """What a writer sends that loses answers, and now and then a batch for good."""
    return [one for one in draw(faulty_writing()) if one.end or draw(st.integers(0, 9))]


def kept_numbers(written: list[LogBatch]) -> list[int]:
    """The numbers that are stored: those of lines before which nothing later came."""
    numbers: list[int] = []
    for one in written:
        after = numbers[-1] + 1 if numbers else 0
        numbers.extend(range(max(one.first_seq, after), one.next_seq))
    return numbers


@settings(deadline=None, max_examples=200)
@given(gapped(), st.data())
def test_whatever_happens_each_line_is_held_once_in_order(
    written: list[LogBatch], data: st.DataObject
) -> None:
    life = Life(written)
    for _ in range(data.draw(st.integers(0, 30))):
        if data.draw(st.integers(0, 4)) == 0:
            life.merge(data)
        else:
            data.draw(st.sampled_from(STEPS))(life)
    life.finish()
    lines = life.store.lines(STREAM, life.gather)
    assert seqs_of(lines) == kept_numbers(written)
    assert is_true_to_number(lines)
    assert life.gather.position(STREAM) == Position(written[-1].next_seq, ended=True)


@settings(deadline=None, max_examples=100)
@given(st.lists(faulty_writing(most_lines=30), min_size=1, max_size=3), st.data())
def test_ranks_keep_out_of_each_others_way(ranks: list[list[LogBatch]], data: st.DataObject) -> None:
    stream: list[LogBatch] = []
    left = [
        [LogBatch(one.job, 1, rank, *_numbers(one), one.chunks, end=one.end) for one in batches]
        for rank, batches in enumerate(ranks)
    ]
    while any(left):
        rank = data.draw(st.sampled_from([n for n, rest in enumerate(left) if rest]))
        stream.append(left[rank].pop(0))
    life = Life(stream)
    for _ in range(len(stream)):
        data.draw(st.sampled_from(STEPS))(life)
    life.finish()
    for rank, batches in enumerate(ranks):
        lines = life.store.lines(Stream(JOB, 1, rank), life.gather)
        assert seqs_of(lines) == list(range(batches[-1].next_seq))
        assert is_true_to_number(lines)


def _numbers(one: LogBatch) -> tuple[int, int]:
    return one.first_seq, one.next_seq
