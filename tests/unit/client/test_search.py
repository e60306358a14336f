import pytest

from gpuyard.client.aio import AsyncClient
from gpuyard.client.search import Found, Unasked
from gpuyard.contracts.errors import InvalidSpec, NotFound
from gpuyard.contracts.log import LogLine
from tests.unit.client.stored import StoredYard, stored_yard
from tests.unit.logger.batches import batch


def places(lines: list[LogLine]) -> list[tuple[str, int, int, int]]:
    return [(line.job.rsplit("-", 1)[0], line.attempt, line.rank, line.seq) for line in lines]


async def three_jobs(yard: StoredYard) -> None:
    await yard.add_job("old", 1.0, batch(0, 30), batch(0, 30, rank=1), labels={"team": "a"})
    await yard.add_job("two", 2.0, batch(0, 20), batch(0, 12, attempt=2), attempts=2, labels={"team": "b"})
    await yard.add_job("new", 3.0, batch(0, 9), labels={"team": "a", "run": "7"})


async def everything(client: AsyncClient, pattern: str, limit: int, **how: object) -> list[Found]:
    answers: list[Found] = []
    while not answers or answers[-1].cursor:
        cursor = answers[-1].cursor if answers else ""
        answers.append(await client.search_logs(pattern, limit=limit, cursor=cursor, **how))  # type: ignore[arg-type]
    return answers


async def test_newest_jobs_and_attempts_come_first() -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        await three_jobs(yard)
        found = await client.search_logs("line 1?1$")
        assert places(found.lines) == [
            ("new", 1, 0, 1),
            ("two", 2, 0, 1),
            ("two", 2, 0, 11),
            ("two", 1, 0, 1),
            ("two", 1, 0, 11),
            ("old", 1, 0, 1),
            ("old", 1, 1, 1),
            ("old", 1, 0, 11),
            ("old", 1, 1, 11),
        ]
        assert {line.text for line in found.lines} == {b"line 1", b"line 11"}
        assert (found.cursor, found.unasked) == ("", [])
        assert found.scanned_bytes > 0


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("page_bytes", [1, 400, 524288])
async def test_answers_together_hold_every_line_once(limit: int, page_bytes: int) -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        await three_jobs(yard)
        yard.page_bytes = page_bytes
        answers = await everything(client, "[37]$", limit)
        assert all(len(found.lines) <= limit for found in answers)
        got = [place for found in answers for place in places(found.lines)]
        assert len(got) == len(set(got)) == 2 * 6 + 4 + 2 + 2
        for stream in {place[:3] for place in got}:
            seqs = [place[3] for place in got if place[:3] == stream]
            assert seqs == sorted(seqs)


async def test_only_the_jobs_that_are_meant() -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        await three_jobs(yard)

        async def jobs(**how: object) -> set[str]:
            found = await client.search_logs("line", **how)  # type: ignore[arg-type]
            return {place[0] for place in places(found.lines)}

        assert await jobs(labels={"team": "a"}) == {"old", "new"}
        assert await jobs(labels={"team": "a", "run": "7"}) == {"new"}
        assert await jobs(jobs=["two", "old"]) == {"two", "old"}
        assert await jobs(ranks=[1]) == {"old"}
        assert await jobs(since_s=25.0) == {"old"}
        with pytest.raises(NotFound):
            await jobs(jobs=["nobody"])


async def test_a_job_that_cannot_be_asked_is_told_and_the_others_are_searched() -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        await three_jobs(yard)
        (broken,) = {job.id for job in await client.list() if job.spec.name == "two"}
        yard.broken.add(broken)
        found = await client.search_logs("line")
        assert found.unasked == [Unasked(broken, "the disk is on fire")]
        assert {place[0] for place in places(found.lines)} == {"old", "new"}


async def test_what_cannot_be_asked_is_refused() -> None:
    async with stored_yard() as yard, AsyncClient(bus=yard.bus) as client:
        await three_jobs(yard)
        with pytest.raises(InvalidSpec, match="not a regular expression"):
            await client.search_logs("(")
        for cursor in ("x", "AAAA", "%%%"):
            with pytest.raises(InvalidSpec, match="no cursor"):
                await client.search_logs("line", cursor=cursor)
        with pytest.raises(InvalidSpec, match="at least one line"):
            await client.search_logs("line", limit=0)
        assert yard.asked == []
