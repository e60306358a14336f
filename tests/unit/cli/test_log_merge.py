import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.cli import log_merge
from gpuyard.cli.log_merge import merged
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.log import OUT, LogLine

GENEROUS_S = 30.0


def a_line(job: str, at_s: float) -> LogLine:
    return LogLine(job, 1, 0, 0, OUT, at_s, b"")


async def told(*lines: LogLine) -> AsyncGenerator[LogLine, None]:
    for line in lines:
        yield line


async def all_of(*sources: AsyncGenerator[LogLine, None]) -> list[LogLine]:
    return [line async for group in merged(sources) for line in group]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_merge, "PATIENCE_S", GENEROUS_S)


@given(st.lists(st.lists(st.floats(0, 9), max_size=8).map(sorted), max_size=4))
def test_lines_are_merged_by_time(times: list[list[float]]) -> None:
    sources = (told(*(a_line(str(job), at_s) for at_s in row)) for job, row in enumerate(times))
    lines = asyncio.run(all_of(*sources))
    assert [line.at_s for line in lines] == sorted(at_s for row in times for at_s in row)


@given(st.lists(st.lists(st.floats(0, 9), max_size=8), max_size=4))
def test_a_job_keeps_its_order_whatever_its_clock(times: list[list[float]]) -> None:
    sources = (told(*(a_line(str(job), at_s) for at_s in row)) for job, row in enumerate(times))
    lines = asyncio.run(all_of(*sources))
    for job, row in enumerate(times):
        assert [line.at_s for line in lines if line.job == str(job)] == row


async def test_more_lines_than_are_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_merge, "AHEAD_LINES", 3)
    lines = await all_of(
        told(*(a_line("a", 2.0 * n) for n in range(20))), told(*(a_line("b", 2.0 * n + 1) for n in range(20)))
    )
    assert [line.at_s for line in lines] == list(range(40))


async def test_a_silent_job_holds_up_nobody_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_merge, "PATIENCE_S", 0.01)
    speak = asyncio.Event()

    async def silent() -> AsyncGenerator[LogLine, None]:
        await speak.wait()
        yield a_line("b", 0.0)

    async with asyncio.timeout(GENEROUS_S), aclosing(merged([told(a_line("a", 1.0)), silent()])) as groups:
        assert await anext(groups) == [a_line("a", 1.0)]
        speak.set()
        assert [line async for group in groups for line in group] == [a_line("b", 0.0)]


async def test_silence_has_a_beat() -> None:
    async def silent() -> AsyncGenerator[LogLine, None]:
        await asyncio.Event().wait()
        yield a_line("a", 0.0)

    async with asyncio.timeout(GENEROUS_S), aclosing(merged([silent()], beat_s=0.01)) as groups:
        assert [await anext(groups), await anext(groups)] == [[], []]


async def test_what_broke_a_job_is_told_after_the_lines_of_the_others() -> None:
    async def broken() -> AsyncGenerator[LogLine, None]:
        yield a_line("a", 0.0)
        raise Unavailable("gone")

    async with aclosing(merged([broken(), told(a_line("b", 1.0))])) as groups:
        assert [line.job for line in await anext(groups)] == ["a", "b"]
        with pytest.raises(Unavailable, match="gone"):
            await anext(groups)


async def test_whoever_leaves_closes_the_sources() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[LogLine, None]:
        try:
            while True:
                yield a_line("a", 0.0)
        finally:
            closed.set()

    async with aclosing(merged([endless()])) as groups:
        assert await anext(groups)
    assert closed.is_set()
