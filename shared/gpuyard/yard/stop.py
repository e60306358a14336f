"""Stopping a yard from outside: ask the `gpuyard up` that runs there, wait, kill."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from gpuyard.client import locate
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.errors import Unavailable

# Five processes with ten seconds each, and a little.
PATIENCE_S = 60.0
_POLL_S = 0.05
_ENDING_S = 30.0


async def stop(root: Path, patience_s: float = PATIENCE_S) -> int | None:
    """Stop the yard in a directory; returns the pid that ran there, None if none did."""
    pid = locate.lock_holder(root)
    if pid is None:
        return None
    _send(pid, signal.SIGTERM)
    if not await _is_gone(root, pid, patience_s):
        # Its services die with it: the kernel sees to that.
        _send(pid, signal.SIGKILL)
        await _is_gone(root, pid, patience_s)
    return pid


async def cancel_jobs(client: AsyncClient) -> list[str]:
    """Cancel every active job and wait until all have ended; returns their ids.

    Raises:
        Unavailable: some have not ended in time, for example because no executor answers.
    """
    jobs = await client.list(active_only=True)
    await asyncio.gather(*(client.cancel(job) for job in jobs))
    patience_s = _ENDING_S + max((job.spec.grace_s for job in jobs), default=0.0)
    waits = (client.wait(job, timeout_s=patience_s) for job in jobs)
    ended = await asyncio.gather(*waits, return_exceptions=True)
    late = [job.id for job, result in zip(jobs, ended, strict=True) if isinstance(result, TimeoutError)]
    if late:
        raise Unavailable(
            f"cancelled, but not ended after {patience_s:g} s: {', '.join(late)}",
            "`gpuyard doctor` shows what does not answer; `gpuyard down` stops the yard all the same.",
        )
    return [job.id for job in jobs]


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


async def _is_gone(root: Path, pid: int, patience_s: float) -> bool:
    deadline_s = time.monotonic() + patience_s
    while locate.lock_holder(root) == pid:
        if time.monotonic() > deadline_s:
            return False
        await asyncio.sleep(_POLL_S)
    return True
