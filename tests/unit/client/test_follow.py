import asyncio
import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuyard.client import follow as follow_module
from gpuyard.client.follow import follow
from gpuyard.contracts.errors import InvalidSpec, Unavailable
from gpuyard.contracts.log import LogBatch, partition_of
from gpuyard.contracts.subjects import LOG, LOGS_STREAM
from gpuyard.linefilter import Filter
from tests.unit.client.followed import LIMIT_S, Logger, following, world
from tests.unit.logger.batches import JOB, batch, faulty_writing, is_true_to_number, patient
from tests.unit.logger.running import write


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pause(tries: int) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(follow_module, "_pause", pause)


@pytest.fixture
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a logger took with it is not waited for as long as in life."""
    monkeypatch.setattr(follow_module, "QUIET_S", 0.02)
    monkeypatch.setattr(follow_module, "ANSWER_TIMEOUT_S", 0.02)


async def test_history_then_live() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 5), batch(0, 3, rank=1)])
        await logger.persist()
        await write(logger.bus, [batch(5, 6)])
        async with following(logger, expected_ranks=2) as followed:
            await followed.until(lambda f: len(f.lines) == 9)
            await write(logger.bus, [batch(6, 8, end=True), batch(3, 4, rank=1, end=True)])
            await followed.end()
        assert (followed.seqs(0), followed.seqs(1)) == (list(range(8)), list(range(4)))
        assert is_true_to_number(followed.lines)
        assert followed.notices == []


async def test_history_in_many_small_pages() -> None:
    async with world() as logger:
        logger.page_bytes = 300
        await write(
            logger.bus, [batch(first, first + 7, rank=rank) for first in range(0, 70, 7) for rank in (0, 1)]
        )
        await logger.persist()
        await logger.trim()
        lines = [line async for line in follow(logger.bus, JOB, live=False)]
        assert sorted((line.rank, line.seq) for line in lines) == [(r, s) for r in (0, 1) for s in range(70)]
        assert logger.questions > 10


async def test_what_is_there_now_includes_what_is_not_stored_yet() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 5)])
        await logger.persist()
        await write(logger.bus, [batch(5, 9)])
        lines = [line async for line in follow(logger.bus, JOB, live=False, expected_ranks=1)]
        assert [line.seq for line in lines] == list(range(9))


async def test_an_unknown_job_has_no_lines_yet() -> None:
    async with world() as logger:
        assert [line async for line in follow(logger.bus, "nobody", live=False)] == []


async def test_a_tail_and_what_follows() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 50), batch(50, 60)])
        await logger.persist()
        async with following(logger, tail=3, expected_ranks=1) as followed:
            await followed.until(lambda f: len(f.lines) == 3)
            await write(logger.bus, [batch(60, 62, end=True)])
            await followed.end()
        assert followed.seqs() == [57, 58, 59, 60, 61]
        assert followed.notices == []


async def filtered(logger: Logger, wanted: Filter, **how: object) -> list[int]:
    lines = follow(logger.bus, JOB, wanted=wanted, expected_ranks=1, **how)  # type: ignore[arg-type]
    async with asyncio.timeout(LIMIT_S):
        return [line.seq async for line in lines]


@settings(patient, max_examples=40)
@given(
    st.integers(0, 40),
    st.integers(1, 12),
    st.sampled_from([0, 1, 4, 30]),
    st.sampled_from(["7$", "absent", r"line \d$", ""]),
    st.sampled_from([None, 0, 1]),
    st.sampled_from([300, 524288]),
)
async def test_the_same_lines_are_wanted_wherever_history_ends(
    stored: int, step: int, context: int, grep: str, stream: int | None, page_bytes: int
) -> None:
    async with world() as logger:
        logger.page_bytes = page_bytes
        bounds = [*range(0, 40, step), 40]
        batches = [batch(a, b, per_chunk=1, end=b == 40) for a, b in itertools.pairwise(bounds)]
        await write(logger.bus, batches)
        await logger.persist(stored // step)
        await logger.trim()
        passing = [seq for seq in range(40) if stream is None or seq % 2 == stream]
        matches = [seq for seq in passing if re.search(grep, f"line {seq}")]
        reach = context if grep else 0
        expected = [seq for seq in passing if any(abs(seq - match) <= reach for match in matches)]
        wanted = Filter(stream=stream, grep=grep, context=context)
        assert await filtered(logger, wanted) == expected
        assert await filtered(logger, wanted, live=False) == expected


async def test_a_filtered_tail_and_what_follows() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 50)])
        await logger.persist()
        wanted = Filter(grep="7$", context=1)
        async with following(logger, tail=2, wanted=wanted, expected_ranks=1) as followed:
            await followed.until(lambda f: len(f.lines) == 6)
            await write(logger.bus, [batch(50, 60, end=True)])
            await followed.end()
        assert followed.seqs() == [36, 37, 38, 46, 47, 48, 56, 57, 58]
        assert followed.notices == []


async def test_one_rank_of_many_ends_by_itself() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 5, rank=rank, end=rank == 1) for rank in range(3)])
        async with following(logger, ranks=[1], expected_ranks=3) as followed:
            await followed.end()
        assert {line.rank for line in followed.lines} == {1}


async def test_attempts_are_kept_apart() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 5, end=True), batch(0, 3, attempt=2, end=True)])
        await logger.persist()
        for attempt, expected in ((1, 5), (2, 3), (None, 3)):
            lines = [line async for line in follow(logger.bus, JOB, attempt=attempt, expected_ranks=1)]
            assert len(lines) == expected


async def test_a_slow_follower_gets_trimmed_lines_from_history() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 3)])
        lines = follow(logger.bus, JOB, expected_ranks=1)
        assert (await anext(lines)).seq == 0
        await write(logger.bus, [batch(first, first + 3) for first in range(3, 30, 3)])
        await logger.persist()
        await logger.trim()
        await write(logger.bus, [batch(30, 31, end=True)])
        assert [line.seq async for line in lines] == list(range(1, 31))


async def test_lines_trimmed_while_a_follower_was_away_are_missed_even_if_none_follow(
    impatience: None,
) -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 3)])
        lines = follow(logger.bus, JOB, expected_ranks=1)
        assert (await anext(lines)).seq == 0
        await write(logger.bus, [batch(3, 9, end=True)])
        await logger.persist()
        await logger.trim()
        assert [line.seq async for line in lines] == list(range(1, 9))


@pytest.mark.parametrize("live", [True, False])
async def test_silence_is_not_taken_for_loss(impatience: None, live: bool) -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 3, end=not live), batch(0, 0, rank=1)])
        await logger.persist()
        async with following(logger, expected_ranks=1, live=live) as followed:
            await followed.until(lambda f: len(f.lines) == 3)
            asked = logger.questions
            if live:
                await followed.until(lambda _: logger.questions > asked + 3)
                await write(logger.bus, [batch(3, 5, end=True)])
            await followed.end()
        assert followed.seqs() == list(range(5 if live else 3))
        assert followed.notices == []


async def test_without_logger_live_lines_flow() -> None:
    async with world() as logger:
        await logger.go()
        await write(logger.bus, [batch(0, 5)])
        async with following(logger, expected_ranks=1) as followed:
            await followed.until(lambda f: len(f.lines) == 5)
            await write(logger.bus, [batch(5, 9, end=True)])
            await followed.end()
        assert followed.seqs() == list(range(9))
        assert len(followed.notices) == 1
        assert "no logger" in followed.notices[0]


async def test_stored_lines_come_when_the_logger_is_back_and_others_need_not_wait() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 5)])
        await logger.persist()
        await logger.trim()
        await logger.go()
        async with following(logger, expected_ranks=2) as followed:
            await write(logger.bus, [batch(5, 9, end=True), batch(0, 4, rank=1)])
            await followed.until(lambda f: f.seqs(1) == [0, 1, 2, 3])
            assert followed.seqs(0) == []
            await logger.come()
            await followed.until(lambda f: f.seqs(0) == list(range(9)))
            await write(logger.bus, [batch(4, 6, rank=1, end=True)])
            await followed.end()
        assert followed.seqs(1) == list(range(6))
        assert len(followed.notices) == 1


async def test_a_tail_without_logger_begins_with_the_stream() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(0, 5)])
        await logger.persist()
        await logger.trim()
        await logger.go()
        await write(logger.bus, [batch(5, 7, end=True)])
        async with following(logger, tail=10, expected_ranks=1) as followed:
            await followed.end()
        assert followed.seqs() == [5, 6]


async def test_what_is_there_now_wants_a_logger() -> None:
    async with world() as logger:
        await logger.go()
        with pytest.raises(Unavailable):
            [line async for line in follow(logger.bus, JOB, live=False)]


async def test_lost_lines_are_told_and_passed_over() -> None:
    async with world() as logger:
        async with following(logger, expected_ranks=1) as followed:
            await write(logger.bus, [batch(0, 3)])
            await followed.until(lambda f: len(f.lines) == 3)
            await write(logger.bus, [batch(7, 9), batch(9, 10, end=True)])
            await asyncio.sleep(0)
            await logger.persist()
            await followed.end()
        assert followed.seqs() == [0, 1, 2, 7, 8, 9]
        assert followed.notices == ["rank 0: 4 lines before line 7 are lost"]


async def test_what_is_there_now_does_not_wait_for_ever_for_lost_lines() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(7, 9)])
        with pytest.raises(Unavailable, match="not stored"):
            [line async for line in follow(logger.bus, JOB, live=False)]


async def test_unreadable_messages_are_passed_over() -> None:
    async with world() as logger:
        await logger.bus.append(LOG(partition=partition_of(JOB), job=JOB, attempt=1, rank=0), b"\xc1")
        await write(logger.bus, [replace(batch(0, 2), next_seq=10**9)])
        await write(logger.bus, [batch(0, 2, end=True)])
        lines = [line async for line in follow(logger.bus, JOB, expected_ranks=1)]
        assert [line.seq for line in lines] == [0, 1]


async def test_a_refused_question_is_the_callers_error() -> None:
    async with world() as logger:
        with pytest.raises(InvalidSpec):
            [line async for line in follow(logger.bus, "No Id", live=False)]


async def test_a_stream_that_lost_data_is_joined_anew() -> None:
    async with world() as logger:
        await write(logger.bus, [batch(seq, seq + 1) for seq in range(5)])
        await logger.persist()
        async with following(logger, expected_ranks=1) as followed:
            await followed.until(lambda f: len(f.lines) == 5)
            logger.bus._logs[LOGS_STREAM.name].last_seq = 0
            logger.bus._logs[LOGS_STREAM.name].trim("", None)
            logger.through_seq = 0
            await write(logger.bus, [batch(5, 8, end=True)])
            await followed.end()
        assert followed.seqs() == list(range(8))


STEPS = st.lists(
    st.sampled_from(["write", "write", "write", "persist", "persist all", "trim", "go", "come", "turns"]),
    max_size=60,
)


@settings(patient, max_examples=60)
@given(
    st.lists(faulty_writing(most_lines=30), min_size=1, max_size=3),
    st.integers(200, 2000),
    STEPS,
    STEPS,
)
async def test_every_line_once_in_order_whatever_happens(
    impatience: None, writings: list[list[LogBatch]], page_bytes: int, before: list[str], during: list[str]
) -> None:
    async with world() as logger:
        logger.page_bytes = page_bytes
        waiting = in_turns(writings)
        await play(logger, before, waiting)
        async with following(logger, expected_ranks=len(writings)) as followed:
            await play(logger, during, waiting)
            await write(logger.bus, waiting)
            await logger.come()
            await logger.persist()
            await followed.end()
        for rank, written in enumerate(writings):
            assert followed.seqs(rank) == list(range(written[-1].next_seq))
        assert is_true_to_number(followed.lines)


def in_turns(writings: list[list[LogBatch]]) -> list[LogBatch]:
    ranks = [[replace(one, rank=rank) for one in written] for rank, written in enumerate(writings)]
    return [one for turn in itertools.zip_longest(*ranks) for one in turn if one is not None]


async def play(logger: Logger, steps: list[str], waiting: list[LogBatch]) -> None:
    for step in steps:
        match step:
            case "write" if waiting:
                await write(logger.bus, [waiting.pop(0)])
            case "persist":
                await logger.persist(1)
            case "persist all":
                await logger.persist()
            case "trim":
                await logger.trim()
            case "go":
                await logger.go()
            case "come":
                await logger.come()
            case _:
                for _ in range(5):
                    await asyncio.sleep(0)
