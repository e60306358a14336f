from pathlib import Path

import pytest

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


async def one_rank(yard: FakeYard, name: str = "eval", *lines: str, **labels: str) -> Job:
    spec = a_spec(name, labels=labels)
    job = await yard.start(await yard.record(a_job(spec, request_id=name), "queued"))
    await yard.print_lines(job, 0, *lines, end=True)
    return await yard.end(job)


async def three_jobs(yard: FakeYard) -> None:
    await two_ranks(yard)
    await one_rank(yard, "eval", "score", team="vision")
    await one_rank(yard, "eval-late", "score", team="vision", size="big")


def test_lines_of_several_ranks_are_marked(shell: Shell) -> None:
    result = shell("logs", "train", prepare=two_ranks)
    assert result.code == 0
    assert sorted(result.out.splitlines()) == ["[0] \x1b[2Jsecond", "[0] first", "[1] other"]
    assert result.err == "[0] oops\n"


def test_one_rank_is_not_marked(shell: Shell) -> None:
    assert shell("logs", "train", "--rank", "1", prepare=two_ranks).out == "other\n"
    assert "[" not in shell("logs", "train", "--no-prefix", prepare=two_ranks).err
    assert shell("logs", "train", "--rank", "1", "--prefix", prepare=two_ranks).out == "[1] other\n"
    assert shell("logs", "train", "--raw", prepare=two_ranks).err == "oops\n"


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


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        (("--grep", "SEC", "-i"), ["[0] \x1b[2Jsecond"]),
        (("--grep", "second", "-C", "1", "--stream", "out"), ["[0] first", "[0] \x1b[2Jsecond"]),
        (("--stream", "err"), []),
        (("--until", "1970-01-01T00:00:04Z"), []),
        (("--since", "1970-01-01T00:00:04Z", "--rank", "1,1"), ["other"]),
    ],
)
def test_only_what_is_wanted_is_printed(shell: Shell, arguments: tuple[str, ...], texts: list[str]) -> None:
    assert shell("logs", "train", *arguments, prepare=two_ranks).out.splitlines() == texts


def test_that_nothing_is_there_is_said(shell: Shell) -> None:
    assert shell("logs", "train", "--grep", "nothing", prepare=two_ranks).err == "There is no such line.\n"
    assert shell("logs", "eval", prepare=one_rank).err == "Nothing was printed yet.\n"


@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_what_ranks_share_is_folded(shell: Shell, follow: tuple[str, ...]) -> None:
    async def alike(yard: FakeYard) -> None:
        job = await yard.start(await yard.record(a_job(a_spec(ranks=3)), "queued"))
        for rank, own in enumerate(("loss=1", "loss=1", "loss=nan")):
            await yard.print_lines(job, rank, "step 1", own, "step 2", end=True)
        await yard.end(job)

    result = shell("logs", "train", "--fold", *follow, prepare=alike)
    assert result.out.splitlines() == [
        "  [0-2 x3] step 1",
        "  [0-1 x2] loss=1",
        "! [2] loss=nan",
        "  [0-2 x3] step 2",
    ]


def test_jobs_by_name_and_by_label(shell: Shell) -> None:
    by_name = shell("logs", "eval", "train", "--rank", "0", "--stream", "out", prepare=three_jobs)
    assert len(by_name.out.splitlines()) == 3
    by_label = shell("logs", "--label", "team=vision", prepare=three_jobs)
    assert [line.split("-")[0] for line in by_label.out.splitlines()] == ["[eval", "[eval"]
    only = shell("logs", "--label", "team=vision", "--label", "size=big", prepare=three_jobs)
    assert only.out == "score\n"


def test_one_job_that_lacks_the_rank_does_not_hide_the_others(shell: Shell) -> None:
    result = shell("logs", "train", "eval", "--rank", "1", prepare=three_jobs)
    assert result.code == 3
    assert result.out.endswith("other\n")
    assert "has no rank 1" in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tarin",), "Did you mean `train`?"),
        (("--label", "team=vison"), "Did you mean `--label team=vision`?"),
        (("zzz",), "`gpuyard ps --all` lists all jobs."),
        (("train", "--rank", "0-7"), "Its ranks are 0 to 1."),
        (("eval-late", "--rank", "99"), "Its only rank is 0."),
        (("train", "--attempt", "7"), "Its newest is attempt 1."),
        (("train", "--attempt", "7", "-f"), "Its newest is attempt 1."),
        (("train", "--export", "/no/such/folder/a.txt"), "there is no folder /no/such/folder"),
    ],
)
def test_what_is_not_there_is_said(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    result = shell("logs", *arguments, prepare=three_jobs)
    assert (result.code, result.out) == (3, "")
    assert words in result.err


def test_a_job_that_was_never_placed_has_no_attempts(shell: Shell) -> None:
    async def queued(yard: FakeYard) -> None:
        await yard.record(a_job(), "queued")

    assert "never placed" in shell("logs", "train", "--attempt", "1", prepare=queued).err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a job"),
        (("train", "--label", "a=b"), "by name or by --label"),
        (("--label", "a"), "`a` is not of the form K=V"),
        (("train", "--rank", "x"), "`x` is not a list of ranks"),
        (("train", "--attempt", "0"), "--attempt is between 1 and"),
        (("train", "--attempt", "99999999999999999999"), "--attempt is between"),
        (("train", "--tail", "-1"), "--tail is between 0 and"),
        (("train", "--tail", "99999999999999999999"), "--tail is between"),
        (("train", "--since", "soon"), "--since: `soon` is no time"),
        (("train", "--since", "1h", "--until", "2h"), "--since is after --until"),
        (("train", "--stream", "both"), "--stream"),
        (("train", "-C", "3"), "--context needs --grep"),
        (("train", "-i"), "--ignore-case needs --grep"),
        (("train", "--grep", ""), "nothing to look for"),
        (("train", "--grep", "a" * 1025), "longer than 1024"),
        (("train", "--grep", "x", "-C", "1001"), "--context is between 0 and 1000"),
        (("train", "--fold", "--json"), "--fold does not go with --json"),
        (("train", "--fold", "--raw"), "--fold does not go with --raw"),
        (("train", "--raw", "--json"), "--raw does not go with --json"),
        (("train", "--raw", "--prefix"), "no prefix to choose"),
        (("train", "--limit", "5"), "--limit needs --all"),
        (("train", "--format", "plain"), "--format needs --export"),
        (("--all",), "--all needs --grep"),
        (("train", "--all", "--grep", "x"), "--all searches all jobs"),
        (("--all", "--grep", "x", "-f"), "--follow does not go with --all"),
        (("--all", "--grep", "x", "--fold"), "--fold does not go with --all"),
        (("train", "--export", "a.doc"), "does not say what the file shall be"),
        (("train", "--export", "a.txt", "--rank", "0"), "--rank does not go with --export"),
        (("train", "eval", "--export", "a.txt"), "one file holds one job"),
        (("train", "--pin", "--unpin"), "--unpin does not go with --pin"),
        (("train", "--pin", "--tail", "1"), "--tail does not go with --pin"),
    ],
)
def test_mistakes_are_explained(
    shell: Shell, arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = shell("logs", *arguments, prepare=three_jobs)
    assert result.code == 2
    assert "--json" in arguments or not result.out
    assert words in result.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pattern", "pointer"),
    [("loss=(\\d+", " " * 5 + "^"), ("(a)\\1", " " * 3 + "^"), ("a(?=b)", " " + "^"), ("[z-a]", " " + "^")],
)
def test_where_a_regular_expression_is_wrong_is_shown(shell: Shell, pattern: str, pointer: str) -> None:
    result = shell("logs", "train", "--grep", pattern, prepare=two_ranks)
    assert result.code == 2
    assert f"  {pattern}\n  {pointer}\n" in result.err
