import pytest

from gpuyard.cli.logs import ranks_of
from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.job import Job
from gpuyard.contracts.log import ERR
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import FakeYard, a_job, a_spec


async def two_ranks(yard: FakeYard) -> Job:
    job = await yard.start(await yard.record(a_job(a_spec(ranks=2)), "queued"))
    await yard.print_lines(job, 0, "first", "\x1b[2Jsecond")
    await yard.print_lines(job, 1, "other", end=True)
    await yard.print_lines(job, 0, "oops", first=2, stream=ERR, end=True)
    return await yard.end(job)


def test_lines_of_several_ranks_are_marked(shell: Shell) -> None:
    result = shell("logs", "train", prepare=two_ranks)
    assert result.code == 0
    assert sorted(result.out.splitlines()) == ["[0] \x1b[2Jsecond", "[0] first", "[1] other"]
    assert result.err == "[0] oops\n"


def test_one_rank_is_not_marked(shell: Shell) -> None:
    assert shell("logs", "train", "--rank", "1", prepare=two_ranks).out == "other\n"
    assert "[" not in shell("logs", "train", "--no-prefix", prepare=two_ranks).err
    assert shell("logs", "train", "--rank", "1", "--prefix", prepare=two_ranks).out == "[1] other\n"


def test_follow_ends_with_the_job(shell: Shell) -> None:
    assert len(shell("logs", "-f", "train", prepare=two_ranks).out.splitlines()) == 3


def test_log_lines_as_json(shell: Shell) -> None:
    lines = shell("logs", "train", "--json", "--rank", "0", prepare=two_ranks).json_lines
    assert [(line["seq"], line["stream"], line["text"]) for line in lines] == [
        (0, "out", "first"),
        (1, "out", "\x1b[2Jsecond"),
        (2, "err", "oops"),
    ]
    assert {"type", "job", "attempt", "rank", "at_s"} <= lines[0].keys()


def test_ranks_beyond_the_gang_are_refused(shell: Shell) -> None:
    result = shell("logs", "train", "--rank", "0-7", prepare=two_ranks)
    assert result.code == 3
    assert "has no rank 2" in result.err
    assert "0 to 1" in result.err


async def one_rank(yard: FakeYard) -> Job:
    return await yard.end(await yard.start(await yard.record(a_job())))


def test_the_only_rank_is_named(shell: Shell) -> None:
    result = shell("logs", "train", "--rank", "99", prepare=one_rank)
    assert result.code == 3
    assert "Its only rank is 0." in result.err


@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_attempts_that_never_were_are_refused(shell: Shell, follow: tuple[str, ...]) -> None:
    result = shell("logs", "train", "--attempt", "7", *follow, prepare=two_ranks)
    assert (result.code, result.out) == (3, "")
    assert "has no attempt 7" in result.err
    assert "Its newest is attempt 1." in result.err


def test_a_job_that_was_never_placed_has_no_attempts(shell: Shell) -> None:
    async def queued(yard: FakeYard) -> None:
        await yard.record(a_job(), "queued")

    assert "never placed" in shell("logs", "train", "--attempt", "1", prepare=queued).err


@pytest.mark.parametrize(
    ("text", "ranks"),
    [("0", {0}), ("0,2-5", {0, 2, 3, 4, 5}), (" 1 , 3 - 4 ", {1, 3, 4}), ("7-7,7", {7})],
)
def test_ranks_are_read(text: str, ranks: set[int]) -> None:
    assert ranks_of(text) == ranks


@pytest.mark.parametrize("text", ["", ",", "a", "1-", "-1", "5-2", "1--2", "999999", "0-65536", "²", "1,,2"])
def test_what_are_no_ranks_is_refused(text: str) -> None:
    with pytest.raises(InvalidSpec):
        ranks_of(text)


def test_events_of_a_job_and_of_all(shell: Shell) -> None:
    async def two(yard: FakeYard) -> None:
        await two_ranks(yard)
        await yard.record(a_job(a_spec("other"), request_id="r2"), "queued")

    of_one = shell("events", "train", "-f", prepare=two)
    assert [line.split()[2] for line in of_one.out.splitlines()] == [
        "queued",
        "placed",
        "running",
        "succeeded",
    ]
    events = shell("events", "--json", prepare=two).json_lines
    assert [event["kind"] for event in events] == ["queued", "placed", "running", "succeeded", "queued"]
    rest = shell("events", "--json", "--after", str(events[1]["seq"]), prepare=two).json_lines
    assert rest == events[2:]
    assert {"seq", "index", "job", "state", "attempt", "kind", "at_s", "message"} <= rest[0].keys()
