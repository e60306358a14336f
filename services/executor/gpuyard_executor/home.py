"""An executor's directory for one node: only one executor works there, and only one kind of engine."""

import fcntl
import os
from pathlib import Path

from gpuyard.contracts.errors import Conflict
from gpuyard_executor.rank_directory import RankDirectory


def hold_home(home: Path, *, is_container: bool) -> int:
    """Make the directory and lock it, as long as the descriptor that is returned stays open.

    Raises:
        Conflict: another executor works there, or ranks of the other kind of engine are left.

    """
    ranks = home / "ranks"
    ranks.mkdir(parents=True, exist_ok=True, mode=0o700)
    guard = os.open(home / "executor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _refuse_others(ranks, is_container=is_container)
    except BlockingIOError:
        os.close(guard)
        raise Conflict(
            f"another executor works in {home}", "Stop it, or choose another `dir` for this one."
        ) from None
    except Conflict:
        os.close(guard)
        raise
    return guard


def _refuse_others(ranks: Path, *, is_container: bool) -> None:
    for path in ranks.iterdir():
        record = RankDirectory(path).record()
        if record and record.plan.is_container != is_container:
            other = "docker" if record.plan.is_container else "process"
            raise Conflict(
                f'{path.name} was started with `runtime = "{other}"` and is still here',
                "Go back to that runtime until the node is drained.",
            )
