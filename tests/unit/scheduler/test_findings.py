"""Lines found in the output: told once, acted on, also when the job has ended."""

import pytest

from gpuyard.contracts.errors import Failure
from gpuyard.contracts.job import ExitCause, Job, JobEvent, JobState
from gpuyard.contracts.log_rule import LogAction
from gpuyard.contracts.request import Accepted, Finding, Reply
from gpuyard_scheduler.core import records
from gpuyard_scheduler.core.events import Requested
from tests.unit.scheduler.test_machine import state, submitted
from tests.unit.scheduler.world import World, spec


@pytest.fixture
def world() -> World:
    world = World()
    world.add_node("a", 8)
    return world


def find(
    world: World, job: str, action: LogAction = LogAction.EVENT, *, rule: str = "cuda-oom", attempt: int = 1
) -> Reply:
    finding = Finding(
        "finding-1",
        job,
        attempt,
        1,
        rule,
        action,
        "a GPU ran out of memory",
        "CUDA out of memory.",
        5.0,
        "_INBOX.f",
    )
    world.feed(Requested(finding))
    return world.replies["_INBOX.f"]


def told(job: Job) -> list[JobEvent]:
    return [event for event in job.events if event.kind == "log_rule"]


def test_a_finding_is_told_with_rank_and_node(world: World) -> None:
    job = submitted(world, spec(2))
    world.obey()
    assert find(world, job) == Accepted(job, JobState.RUNNING)
    (event,) = told(world.jobs[job])
    assert event.message == "rank 1 on a: a GPU ran out of memory: CUDA out of memory."
    assert event.attempt == 1
    assert state(world, job) is JobState.RUNNING


@pytest.mark.parametrize("has_ended", [False, True])
def test_it_is_told_once_however_often_it_comes(world: World, has_ended: bool) -> None:
    job = submitted(world, spec(2))
    world.obey()
    find(world, job)
    if has_ended:
        world.exit(job)
    version = world.jobs[job].version
    assert isinstance(find(world, job), Accepted)
    world.take_over()
    assert isinstance(find(world, job), Accepted)
    assert world.jobs[job].version == version
    find(world, job, rule="other")
    assert world.jobs[job].version == version + 1


def test_what_a_job_printed_last_is_told_behind_its_end(world: World) -> None:
    job = submitted(world, spec(2))
    world.obey()
    world.exit(job, code=1)
    ended = world.jobs[job]
    assert find(world, job) == Accepted(job, JobState.FAILED)
    assert told(world.jobs[job])[0].message.startswith("rank 1 on a: ")
    assert (world.jobs[job].exit, world.jobs[job].ended_at_s) == (ended.exit, ended.ended_at_s)
    assert state(world, job) is JobState.FAILED


def test_a_record_that_is_gone_is_not_brought_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_KEPT_WHOLE", 1)
    first, second = (submitted(world, spec(1, name=name)) for name in ("one", "two"))
    world.obey()
    world.exit(first)
    world.exit(second)
    reply = find(world, first)
    assert isinstance(reply, Failure)
    assert reply.code == "not_found"
    assert isinstance(find(world, second), Accepted)
    assert isinstance(find(world, "never-was-abcdef"), Failure)


def test_no_retry_ends_a_job_that_would_be_tried_again(world: World) -> None:
    job = submitted(world, spec(2))
    find(world, job, LogAction.NO_RETRY, rule="module-missing")
    assert world.jobs[job].no_retry == "module-missing"
    assert "not tried again" in told(world.jobs[job])[0].message
    world.tick(121)
    world.obey()
    assert state(world, job) is JobState.FAILED
    exit_ = world.jobs[job].exit
    assert exit_ is not None
    assert exit_.cause is ExitCause.LAUNCH


def test_a_suspect_node_comes_after_the_others(world: World) -> None:
    world.add_node("b", 8)
    job = submitted(world, spec(2, nodes=("a",)))
    world.obey()
    find(world, job, LogAction.SUSPECT_NODE)
    assert "other nodes are preferred to a" in told(world.jobs[job])[0].message
    world.exit(job)
    again = submitted(world, spec(2))
    placement = world.jobs[again].placement
    assert placement is not None
    assert placement.nodes == ("b",)


def test_an_attempt_that_was_given_up_blames_no_node(world: World) -> None:
    job = submitted(world, spec(2))
    world.tick(121)
    world.obey()
    world.obey()
    assert world.jobs[job].attempt == 2
    find(world, job, LogAction.SUSPECT_NODE, attempt=1)
    assert told(world.jobs[job])[0].message == "rank 1: a GPU ran out of memory: CUDA out of memory."
