from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.codec import MAX_MESSAGE_BYTES, encode
from gpuyard.contracts.log import OUT, LogBatch, LogPage, LogQuery
from gpuyard_logger.core.frame import Frame, Mark
from gpuyard_logger.core.page import assemble
from gpuyard_logger.core.sequence import MAX_LINE_BYTES, Position
from tests.unit.logger.batches import JOB, batch, lines, patient, raw, seqs
from tests.unit.logger.memory import MemoryStore


def store_of(*batches: LogBatch) -> MemoryStore:
    store = MemoryStore()
    store.append(batches)
    return store


class OneFrame:
    """Every rank has printed the same."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    def onward(self, _rank: int, _from_seq: int) -> Iterator[Frame]:
        return iter((self._frame,))

    back = onward


def all_pages(store: MemoryStore, **query: object) -> list[LogPage]:
    """Page on by cursor until the end, as a reader does."""
    after: dict[int, int] = {}
    pages: list[LogPage] = []
    while not pages or not pages[-1].complete:
        pages.append(store.page(LogQuery(JOB, after=tuple(after.items()), **query), 7))  # type: ignore[arg-type]
        assert pages[-1].complete or set(pages[-1].next) - after.items(), "no progress"
        after |= dict(pages[-1].next)
    return pages


def of_rank(pages: list[LogPage], rank: int) -> list[int]:
    return seqs(one for page in pages for one in page.batches if one.rank == rank)


def test_nothing_stored_is_a_page_too() -> None:
    assert MemoryStore().page(LogQuery(JOB), 4) == LogPage(attempt=0, through_seq=4)


def test_the_newest_attempt_is_the_default() -> None:
    store = store_of(batch(0, 3, attempt=1), batch(0, 2, attempt=2))
    page = store.page(LogQuery(JOB), 0)
    assert (page.attempt, seqs(page.batches)) == (2, [0, 1])
    assert seqs(store.page(LogQuery(JOB, attempt=1), 0).batches) == [0, 1, 2]
    assert store.page(LogQuery(JOB, attempt=3), 0).attempt == 0


def test_some_ranks_only() -> None:
    store = store_of(batch(0, 3), batch(0, 3, rank=1), batch(0, 3, rank=2, end=True))
    page = store.page(LogQuery(JOB, ranks=(2, 1, 9)), 0)
    assert {one.rank for one in page.batches} == {1, 2}
    assert page.next == ((1, 3), (2, 3))
    assert page.ended == (2,)


def test_ranks_are_merged_by_time() -> None:
    store = store_of(
        *(batch(seq, seq + 1, rank=rank, at_s=10.0 * seq + rank) for seq in range(3) for rank in (0, 1))
    )
    page = store.page(LogQuery(JOB), 0)
    assert [(one.rank, one.first_seq) for one in page.batches] == [
        (0, 0),
        (1, 0),
        (0, 1),
        (1, 1),
        (0, 2),
        (1, 2),
    ]


def test_a_clock_that_goes_back_does_not_turn_lines_round() -> None:
    store = store_of(batch(0, 2, at_s=100.0), batch(2, 4, at_s=1.0), batch(0, 2, rank=1, at_s=50.0))
    assert of_rank([store.page(LogQuery(JOB), 0)], 0) == [0, 1, 2, 3]


@patient
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.integers(1, 3000),
    st.integers(1, 20),
)
def test_pages_together_hold_every_line_once(totals: list[int], max_bytes: int, per_batch: int) -> None:
    store = MemoryStore()
    for rank, total in enumerate(totals):
        for first in range(0, total, per_batch):
            store.append([batch(first, min(first + per_batch, total), rank=rank)])
        store.append([batch(total, total, rank=rank, end=True)])
    pages = all_pages(store, max_bytes=max_bytes)
    for rank, total in enumerate(totals):
        assert of_rank(pages, rank) == list(range(total))
    assert pages[-1].ended == tuple(range(len(totals)))
    assert all(page.through_seq == 7 for page in pages)


@patient
@given(st.integers(0, 30), st.integers(0, 40), st.integers(1, 2000))
def test_a_tail_is_the_last_lines(total: int, tail: int, max_bytes: int) -> None:
    store = store_of(*(batch(first, min(first + 4, total)) for first in range(0, total, 4)))
    pages = all_pages(store, tail=tail, max_bytes=max_bytes)
    assert of_rank(pages, 0) == list(range(max(0, total - tail), total))


def test_a_tail_of_nothing_says_where_live_begins() -> None:
    page = store_of(batch(0, 9), batch(0, 4, rank=3)).page(LogQuery(JOB, tail=0), 0)
    assert page.batches == ()
    assert page.next == ((0, 9), (3, 4))


def test_a_tail_does_not_skip_what_a_cursor_asks_for() -> None:
    page = store_of(batch(0, 100)).page(LogQuery(JOB, tail=5, after=((0, 20),)), 0)
    assert seqs(page.batches) == list(range(20, 100))


def test_a_page_keeps_to_its_size() -> None:
    store = store_of(*(raw(b"x" * 999 + b"\n", first_seq=seq, next_seq=seq + 1) for seq in range(100)))
    page = store.page(LogQuery(JOB, max_bytes=20_000), 0)
    assert 15_000 < len(encode(page)) <= 20_000
    assert not page.complete


def test_the_longest_line_fits_a_message() -> None:
    longest = raw(b"x" * MAX_LINE_BYTES + b"\n", next_seq=1)
    page = store_of(longest).page(LogQuery(JOB, max_bytes=1), 0)
    assert seqs(page.batches) == [0]
    assert len(encode(page)) < MAX_MESSAGE_BYTES


def test_a_page_over_the_largest_gang_fits_a_message() -> None:
    big = 2**62
    positions = {rank: Position(big, ended=True) for rank in range(65536)}
    mark = Mark(OUT, 1.0, MAX_LINE_BYTES, 1)
    output = OneFrame(Frame(big - 1, big, [mark], b"x" * (MAX_LINE_BYTES - 1) + b"\n"))
    for tail in (0, 1):
        query = LogQuery(JOB, tail=tail, max_bytes=786432)
        assert len(encode(assemble(query, 1, positions, output, through_seq=2**62))) < MAX_MESSAGE_BYTES


def test_a_gap_is_given_as_it_is() -> None:
    store = store_of(batch(0, 3), batch(8, 10))
    assert seqs(all_pages(store)[0].batches) == [0, 1, 2, 8, 9]
    assert seqs(store.page(LogQuery(JOB, after=((0, 5),)), 0).batches) == [8, 9]


def test_texts_are_the_ones_that_belong_to_the_numbers() -> None:
    page = store_of(batch(0, 10)).page(LogQuery(JOB, after=((0, 4),)), 0)
    assert [line.text for line in lines(page.batches)] == [b"line %d" % seq for seq in range(4, 10)]
