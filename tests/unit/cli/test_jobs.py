from msgspec import structs

from gpuyard.contracts.job import Exit, ExitCause, JobState, TaskSpec
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import NODE, FakeYard, a_job, a_spec

FIELDS = {"id", "name", "state", "attempt", "reason", "placement"}


async def queued(yard: FakeYard) -> None:
    await yard.record(a_job(a_spec("train", gpus=2, labels={"team": "vision"})), "queued")


async def running(yard: FakeYard) -> None:
    await yard.add_node()
    await yard.start(await yard.record(a_job(a_spec("train", gpus=2)), "queued"))


async def failed(yard: FakeYard) -> None:
    job = await yard.start(await yard.record(a_job(a_spec("train", gpus=2)), "queued"))
    await yard.end(job, JobState.FAILED, Exit(3, ExitCause.USER_ERROR, "it raised", 1, NODE))


def test_ps_lists_active_jobs(shell: Shell) -> None:
    result = shell("ps", prepare=queued)
    assert result.code == 0
    header, row = result.out.splitlines()
    assert header.split()[:4] == ["JOB", "STATE", "ATTEMPT", "RANKS"]
    assert row.split()[1:6] == ["queued", "0", "2", "2", "-"]
    assert row.endswith("waits for 2 free GPUs")


def test_ps_leaves_ended_jobs_out_unless_asked(shell: Shell) -> None:
    result = shell("ps", prepare=failed)
    assert (result.code, result.out) == (0, "")
    assert "ps --all" in result.err
    assert "failed" in shell("ps", "--all", prepare=failed).out


def test_ps_of_an_empty_yard(shell: Shell) -> None:
    assert shell("ps", "--json").json == []
    assert "No jobs" in shell("ps", "--all").err


def test_ps_json(shell: Shell) -> None:
    (job,) = shell("ps", "--json", prepare=running).json
    assert job.keys() >= FIELDS
    assert (job["name"], job["state"], job["attempt"]) == ("train", "running", 1)
    assert [slot["gpus"] for slot in job["placement"]["slots"]] == [["GPU-a"], ["GPU-d"]]


def test_ps_limit(shell: Shell) -> None:
    async def several(yard: FakeYard) -> None:
        for number in range(5):
            await yard.record(a_job(request_id=f"r{number}"))

    assert len(shell("ps", "--json", "--limit", "2", prepare=several).json) == 2


def test_show_says_where_in_human_words(shell: Shell) -> None:
    result = shell("show", "train", prepare=running)
    assert result.code == 0
    assert "node dgx1-1: GPU 0, 3 (NV2 48 GB/s)" in result.out
    assert "2 ranks, 2 GPUs: python train.py" in result.out
    assert [line.split()[2] for line in result.out.splitlines() if line.startswith("    ")] == [
        "queued",
        "placed",
        "running",
    ]


def test_show_says_why_a_job_waits_and_what_would_help(shell: Shell) -> None:
    result = shell("show", "train", prepare=queued)
    assert "waits for 2 free GPUs" in result.out
    assert "Wait, or add a node." in result.out
    assert "team=vision" in result.out


def test_show_names_the_only_nodes_that_a_job_may_run_on(shell: Shell) -> None:
    async def bound(yard: FakeYard) -> None:
        await yard.record(a_job(a_spec("train", nodes=("n1", "n2"))), "queued")

    assert "  only on    n1, n2\n" in shell("show", "train", prepare=bound).out
    assert "only on" not in shell("show", "train", prepare=queued).out


def test_show_says_how_a_job_ended(shell: Shell) -> None:
    result = shell("show", "train", prepare=failed)
    assert "rank 1 on node dgx1-1 failed first: it raised; ran 4.0 s" in result.out


def test_show_json(shell: Shell) -> None:
    job = shell("show", "train", "--json", prepare=queued).json
    assert job.keys() >= FIELDS
    assert job["reason"] == {
        "code": "no_room",
        "message": "waits for 2 free GPUs",
        "hint": "Wait, or add a node.",
    }
    assert job["placement"] is None


def test_values_of_the_environment_are_never_shown(shell: Shell) -> None:
    async def secretive(yard: FakeYard) -> None:
        task = TaskSpec(("python", "train.py"), env={"API_KEY": "hunter2"})
        await yard.record(a_job(structs.replace(a_spec(), tasks=(task,))))

    for arguments in (["show", "train"], ["show", "train", "--json"], ["ps"], ["ps", "--json"]):
        result = shell(*arguments, prepare=secretive)
        assert result.code == 0
        assert "hunter2" not in result.out + result.err
    assert "API_KEY" in shell("show", "train", prepare=secretive).out


def test_a_job_that_is_not_there_exits_3(shell: Shell) -> None:
    for command in ("show", "logs", "cancel", "events"):
        result = shell(command, "nothing")
        assert result.code == 3
        assert "there is no job `nothing`" in result.err


def test_an_ambiguous_name_exits_5_and_lists_candidates(shell: Shell) -> None:
    async def two(yard: FakeYard) -> None:
        for number in range(2):
            await yard.record(a_job(request_id=f"r{number}"))

    result = shell("show", "train", prepare=two)
    assert result.code == 5
    assert all(job in result.err for job in shell.yard.jobs)


def test_cancel_several(shell: Shell) -> None:
    async def two(yard: FakeYard) -> None:
        for name in ("first", "second"):
            await yard.record(a_job(a_spec(name), request_id=name))

    result = shell("cancel", "first", "second", "--wait", prepare=two)
    assert result.code == 0
    assert [line.split()[1] for line in result.out.splitlines()] == ["cancelled", "cancelled"]
    assert [job["state"] for job in shell("cancel", "first", "--json", prepare=two).json] == ["cancelled"]


def test_one_that_cannot_be_cancelled_does_not_save_the_others(shell: Shell) -> None:
    result = shell("cancel", "nope", "train", "nothing", prepare=running)
    assert result.code == 3
    (job,) = shell.yard.jobs.values()
    assert job.state == "cancelled"
    assert result.out == f"{job.id}  cancelled\n"
    assert "there is no job `nope`" in result.err


def test_cancel_what_has_ended_exits_5(shell: Shell) -> None:
    assert shell("cancel", "train", prepare=failed).code == 5


def test_without_a_scheduler_cancel_exits_6(shell: Shell) -> None:
    async def mute(yard: FakeYard) -> None:
        await queued(yard)
        yard.unanswered = 100

    result = shell("cancel", "train", prepare=mute, timeout_s=0.1)
    assert result.code == 6
    assert "is recorded" in result.err
