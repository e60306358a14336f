from gpuyard.contracts.hardware import GpuProcess
from gpuyard_monitor.core.foreign import GRACE_S, Origin, complaint, owned, strangers
from gpuyard_monitor.core.readings import RawProcess

JOB = Origin("ada", "python", "digits-1")
STRANGER = Origin("bob", "python3")


def test_a_process_with_the_mark_of_a_holder_is_its_jobs() -> None:
    (process,) = owned((RawProcess(7, 100),), {7: JOB}, {"digits-1"})
    assert process == GpuProcess(7, 100, "ada", "python", "digits-1")


def test_a_job_that_does_not_hold_the_gpu_is_a_stranger_there() -> None:
    (process,) = owned((RawProcess(7),), {7: JOB}, {"other"})
    assert process.job is None
    assert process.user == "ada"


def test_before_the_facts_are_known_the_mark_is_believed() -> None:
    marked, unmarked = owned((RawProcess(7), RawProcess(8)), {7: JOB, 8: STRANGER}, None)
    assert (marked.job, unmarked.job) == ("digits-1", None)


def test_a_process_that_nobody_can_look_up_is_a_stranger() -> None:
    (process,) = owned((RawProcess(7),), {}, {"digits-1"})
    assert process == GpuProcess(7)


def test_only_a_stranger_that_stays_makes_the_gpu_foreign() -> None:
    here = owned((RawProcess(7),), {7: STRANGER}, ())
    seen = strangers({}, here, (), 10.0)
    assert complaint(seen, here, 10.0 + GRACE_S - 0.1) == ""
    seen = strangers(seen, here, (), 10.0 + GRACE_S)
    assert complaint(seen, here, 10.0 + GRACE_S) == (
        "used by processes that nobody scheduled: python3 of bob (pid 7); free again once they have ended"
    )
    assert complaint(strangers(seen, (), (), 14.0), (), 14.0) == ""


def test_a_process_that_becomes_a_jobs_starts_anew_if_it_is_disowned() -> None:
    raw = (RawProcess(7),)
    seen = strangers({}, owned(raw, {7: JOB}, ()), (), 0.0)
    seen = strangers(seen, owned(raw, {7: JOB}, {"digits-1"}), (), 1.0)
    assert seen == {}
    assert strangers(seen, owned(raw, {7: JOB}, ()), (), 2.0) == {7: 2.0}


def test_what_is_there_at_the_first_look_has_no_grace() -> None:
    here = owned((RawProcess(7),), {7: STRANGER}, ())
    assert complaint(strangers(None, here, (), 10.0), here, 10.0)


def test_tolerated_programs_are_none() -> None:
    here = owned((RawProcess(7),), {7: Origin("root", "Xorg")}, ())
    assert strangers({}, here, {"Xorg"}, 0.0) == {}


def test_a_crowd_is_counted() -> None:
    raw = tuple(RawProcess(pid) for pid in range(1, 6))
    here = owned(raw, {1: STRANGER}, ())
    told = complaint(strangers({}, here, (), 0.0), here, 99.0)
    assert "python3 of bob (pid 1), unknown of unknown (pid 2)" in told
    assert "and 2 more" in told
