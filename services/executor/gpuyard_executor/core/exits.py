"""From what an engine saw to exit code, cause and a sentence."""

from signal import Signals

from gpuyard.contracts.job import Exit, ExitCause
from gpuyard.contracts.order import Stop
from gpuyard_executor.core.rank import RankEnd


def exit_of(end: RankEnd, stop: Stop | None) -> Exit:
    """How a rank ended, for everybody. A rank that was told to stop ended for the reason of the order."""
    if end.cause:
        return Exit(end.code, end.cause, end.message)
    if end.stopped:
        cause = stop.cause if stop else ExitCause.NODE_LOST
        return Exit(end.code, cause, f"it was told to stop: {cause}" if stop else "its machine was shut down")
    if end.code == 0:
        return Exit(0, message=end.message)
    if end.code == 128 + Signals.SIGKILL:
        hint = "if nobody did that, the machine ran out of memory"
        return Exit(end.code, ExitCause.UNKNOWN, f"it was killed by SIGKILL; {hint}")
    return Exit(end.code, ExitCause.USER_ERROR, _describe(end.code))


def _describe(code: int | None) -> str:
    try:
        return f"it was ended by {Signals((code or 0) - 128).name}"
    except ValueError:
        return f"it exited with code {code}"
