from gpuyard.client.join import Join, Loss
from gpuyard.contracts.log import LogLine, LogPage, LogQuery
from tests.unit.logger.batches import JOB, batch


def numbers(lines: list[LogLine] | None) -> list[int] | None:
    return None if lines is None else [line.seq for line in lines]


def test_a_beginner_asks_for_everything() -> None:
    assert Join().query(JOB) == LogQuery(JOB)
    assert Join(2, {3, 1}, 10).query(JOB) == LogQuery(JOB, attempt=2, ranks=(1, 3), tail=10)


def test_pages_go_on_at_the_cursor() -> None:
    join = Join()
    page = LogPage(attempt=4, batches=(batch(0, 5, attempt=4),), next=((0, 5), (7, 0)))
    assert numbers(join.take_page(page)) == [0, 1, 2, 3, 4]
    assert join.query(JOB) == LogQuery(JOB, attempt=4, after=((0, 5), (7, 0)))


def test_what_was_given_is_not_given_again() -> None:
    join = Join(1)
    assert numbers(join.take_batch(batch(0, 5))) == [0, 1, 2, 3, 4]
    assert numbers(join.take_batch(batch(3, 7))) == [5, 6]
    assert numbers(join.take_batch(batch(0, 5))) == []
    assert numbers(join.take_page(LogPage(1, (batch(2, 9),), ((0, 9),)))) == [7, 8]


def test_a_jump_in_the_stream_wants_history_and_takes_nothing() -> None:
    join = Join(1)
    assert join.take_batch(batch(4, 6)) is None
    assert numbers(join.take_page(LogPage(1, (batch(0, 6),), ((0, 6),)))) == [0, 1, 2, 3, 4, 5]
    assert numbers(join.take_batch(batch(6, 7))) == [6]


def test_a_jump_in_history_is_a_loss() -> None:
    join = Join(1)
    join.take_page(LogPage(1, (batch(2, 4), batch(9, 10)), ((0, 10),)))
    assert join.losses == [Loss(0, 0, 2), Loss(0, 4, 9)]


def test_the_beginning_of_a_tail_is_no_loss() -> None:
    join = Join(1, tail=2)
    join.take_page(LogPage(1, (batch(8, 10),), ((0, 10),)))
    assert join.losses == []


def test_ranks_of_a_page_are_merged_by_time() -> None:
    page = LogPage(
        1, (batch(0, 2, at_s=5.0), batch(0, 1, rank=1, at_s=1.0), batch(2, 3, at_s=0.5)), ((0, 3), (1, 1))
    )
    assert [(line.rank, line.seq) for line in Join(1).take_page(page)] == [(1, 0), (0, 0), (0, 1), (0, 2)]


def test_done_when_every_expected_rank_ended() -> None:
    join = Join(1, expected_ranks=2)
    join.take_batch(batch(0, 3, end=True))
    assert not join.is_done
    join.take_page(LogPage(1, (), ((1, 0),), ended=(1,), complete=False))
    assert not join.is_done, "there are more pages"
    join.take_page(LogPage(1, (), ((1, 0),), ended=(0, 1)))
    assert join.is_done


def test_what_a_page_can_tell_that_is_new() -> None:
    join = Join(1, ranks=[0, 1])
    join.take_page(LogPage(1, (batch(0, 3),), ((0, 3),), ended=(0,)))
    assert not join.lacks(LogPage(1, (), ended=(0, 5)))
    assert join.lacks(LogPage(1, (), ended=(0, 1)))
    assert join.lacks(LogPage(1, (), complete=False))
    assert join.lacks(LogPage(1, (batch(3, 4),)))


def test_chosen_ranks_are_the_expected_ones() -> None:
    join = Join(1, ranks=[1], expected_ranks=8)
    assert numbers(join.take_batch(batch(0, 3, end=True))) == []
    assert not join.is_done
    join.take_batch(batch(0, 3, rank=1, end=True))
    assert join.is_done


def test_never_done_if_nobody_knows_how_many_ranks_there_are() -> None:
    join = Join(1)
    join.take_batch(batch(0, 3, end=True))
    assert not join.is_done


def test_the_first_attempt_that_shows_is_followed() -> None:
    join = Join()
    assert numbers(join.take_batch(batch(0, 3, attempt=2))) == [0, 1, 2]
    assert numbers(join.take_batch(batch(0, 3, attempt=1))) == []
    join.take_page(LogPage(attempt=0))
    assert join.attempt == 2


def test_a_tail_without_logger_begins_where_the_stream_does() -> None:
    join = Join(1, tail=5)
    join.begin_at(batch(40, 42))
    assert numbers(join.take_batch(batch(40, 42))) == [40, 41]
    whole = Join(1)
    whole.begin_at(batch(40, 42))
    assert whole.take_batch(batch(40, 42)) is None
