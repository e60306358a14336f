"""What every store of the logger promises, on each of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuyard.contracts.log import LogBatch, LogQuery
from gpuyard_logger.core.sequence import Position
from gpuyard_logger.file_store import FileStore
from gpuyard_logger.memory_store import MemoryStore
from gpuyard_logger.store import RankId, Store, Stored, read_page
from tests.unit.logger.batches import JOB, batch, faulty_writing, is_true_to_number, lines, patient, raw, seqs

NewStore = Callable[[], Store]
RANK_0 = RankId(JOB, 1, 0)


@pytest.fixture(params=["memory", "file", "file with one handle"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewStore]:
    """Makes empty stores."""
    made: list[Store] = []

    def make() -> Store:
        folder = tmp_path / str(len(made))
        if request.param == "memory":
            made.append(MemoryStore())
        elif request.param == "file":
            made.append(FileStore(folder))
        else:
            made.append(FileStore(folder, open_files=1, remembered_files=1))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(new_store: NewStore) -> Store:
    return new_store()


def test_a_new_store_is_empty(store: Store) -> None:
    assert list(store.attempts(JOB)) == []
    assert dict(store.positions(JOB, 1)) == {}
    assert list(store.read(RANK_0, 0)) == []


def test_asking_leaves_nothing_behind(store: Store) -> None:
    list(store.read(RANK_0, 0))
    store.positions(JOB, 1)
    assert list(store.attempts(JOB)) == []


def test_what_is_stored_is_given_back(store: Store) -> None:
    stored = store.append([batch(0, 5), batch(5, 9, end=True)])
    assert list(store.read(RANK_0, 0)) == [batch(0, 5), batch(5, 9, end=True)]
    assert stored == Stored(9, sum(len(c.data) for b in (batch(0, 5), batch(5, 9)) for c in b.chunks), 0, 0)
    assert store.positions(JOB, 1) == {0: Position(9, ended=True)}


def test_reading_begins_at_any_line(store: Store) -> None:
    store.append([batch(0, 5), batch(5, 9)])
    for first in range(11):
        assert seqs(store.read(RANK_0, first)) == list(range(first, 9))


def test_repeats_are_dropped_and_counted(store: Store) -> None:
    store.append([batch(0, 5)])
    stored = store.append([batch(0, 5), batch(2, 4), batch(3, 8)])
    assert (stored.lines, stored.repeated_batches) == (3, 2)
    assert seqs(store.read(RANK_0, 0)) == list(range(8))


def test_a_gap_is_stored_and_counted(store: Store) -> None:
    store.append([batch(0, 2)])
    assert store.append([batch(10, 12)]).missing_lines == 8
    assert seqs(store.read(RANK_0, 0)) == [0, 1, 10, 11]
    assert seqs(store.read(RANK_0, 5)) == [10, 11]


def test_late_lines_in_a_gap_are_dropped(store: Store) -> None:
    store.append([batch(0, 2), batch(10, 12)])
    assert store.append([batch(2, 10)]).repeated_batches == 1
    assert seqs(store.read(RANK_0, 0)) == [0, 1, 10, 11]


def test_the_end_may_come_alone(store: Store) -> None:
    store.append([batch(0, 4)])
    store.append([batch(4, 4, end=True)])
    assert store.append([batch(4, 4, end=True)]).repeated_batches == 1
    assert store.positions(JOB, 1) == {0: Position(4, ended=True)}


def test_a_rank_may_end_without_a_line(store: Store) -> None:
    store.append([batch(0, 0, end=True)])
    assert store.positions(JOB, 1) == {0: Position(0, ended=True)}


def test_ranks_attempts_and_jobs_are_apart(store: Store) -> None:
    other = "other-job"
    store.append(
        [batch(0, 1), batch(0, 2, rank=65535), batch(0, 3, attempt=12), batch(0, 4, attempt=2, job=other)]
    )
    assert list(store.attempts(JOB)) == [1, 12]
    assert list(store.attempts(other)) == [2]
    assert store.positions(JOB, 1) == {0: Position(1), 65535: Position(2)}
    assert seqs(store.read(RankId(other, 2, 0), 0)) == [0, 1, 2, 3]


def test_any_bytes_are_kept(store: Store) -> None:
    nasty = raw(b"\x00\xff\r\x1b[31m\n\n", b"no newline", next_seq=3)
    store.append([nasty])
    assert list(store.read(RANK_0, 0)) == [nasty]


def test_nothing_to_append_is_nothing(store: Store) -> None:
    assert store.append([]) == Stored()


@settings(patient, max_examples=20)
@given(
    st.lists(faulty_writing(), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
    st.integers(1, 7),
    st.integers(1, 900),
)
def test_every_line_once_whatever_the_rounds(
    new_store: NewStore, writings: list[list[LogBatch]], chance: Random, per_round: int, max_bytes: int
) -> None:
    store = new_store()
    sent = mixed(writings, chance)
    for first in range(0, len(sent), per_round):
        store.append(sent[first : first + per_round])
    for rank, written in enumerate(writings):
        found = lines(store.read(RankId(JOB, 1, rank), 0))
        assert [line.seq for line in found] == list(range(written[-1].next_seq))
        assert is_true_to_number(found)
    page = read_page(store, LogQuery(JOB, max_bytes=max_bytes), 0)
    assert page.ended == tuple(range(len(writings)))


def mixed(writings: list[list[LogBatch]], chance: Random) -> list[LogBatch]:
    """The writings of several ranks as a stream may hold them: each in its order, mixed with the others."""
    left = [[replace(b, rank=rank) for b in reversed(written)] for rank, written in enumerate(writings)]
    out: list[LogBatch] = []
    while any(left):
        out.append(chance.choice([one for one in left if one]).pop())
    return out
