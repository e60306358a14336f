import errno

import pytest

from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.exits import exit_of
from gpuyard_executor.core.rank import RankEnd
from gpuyard_executor.launch_failure import describe_launch_failure
from tests.unit.executor.orders import stop


@pytest.mark.parametrize(
    ("end", "code", "cause", "words"),
    [
        (RankEnd(0), 0, None, ""),
        (RankEnd(3), 3, ExitCause.USER_ERROR, "exited with code 3"),
        (RankEnd(139), 139, ExitCause.USER_ERROR, "ended by SIGSEGV"),
        (RankEnd(255), 255, ExitCause.USER_ERROR, "exited with code 255"),
        (RankEnd(137), 137, ExitCause.UNKNOWN, "ran out of memory"),
        (RankEnd(None, cause=ExitCause.NODE_LOST, message="gone"), None, ExitCause.NODE_LOST, "gone"),
        (RankEnd(143, stopped=True), 143, ExitCause.PREEMPTED, "told to stop: preempted"),
        (RankEnd(0, stopped=True), 0, ExitCause.PREEMPTED, "told to stop"),
    ],
)
def test_causes(end: RankEnd, code: int | None, cause: ExitCause | None, words: str) -> None:
    found = exit_of(end, stop(cause=ExitCause.PREEMPTED))
    assert (found.code, found.cause) == (code, cause)
    assert words in found.message


def test_a_stop_without_an_order_is_a_shutdown_of_the_machine() -> None:
    found = exit_of(RankEnd(143, stopped=True), None)
    assert (found.cause, found.message) == (ExitCause.NODE_LOST, "its machine was shut down")


def test_a_failure_of_ours_leaves_no_code() -> None:
    """So the scheduler knows that another try may succeed."""
    assert describe_launch_failure("fork", errno.EAGAIN, "train", "/")[0] is None
    assert describe_launch_failure("record", errno.ENOSPC, "train", "/")[0] is None
    code, message = describe_launch_failure("exec", errno.EIO, "train", "/")
    assert (code, message) == (126, "`train` can't be executed: Input/output error")
