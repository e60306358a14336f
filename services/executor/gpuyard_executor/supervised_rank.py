"""One rank as its supervisor tells it, and its state."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause
from gpuyard.runtime.retry import backoff_s
from gpuyard_executor.core.rank import RankEnd, RankKey, RankStatus
from gpuyard_executor.core.states import step
from gpuyard_executor.leftovers import kill_leftovers
from gpuyard_executor.rank_directory import RankDirectory, boot_id, rank_end
from gpuyard_executor.rank_record import EndLine
from gpuyard_executor.supervisor_link import SupervisorLink

_RETRY_S = 0.01


class SupervisedRank:
    """Follows one rank from its preparation, or from being found again, to its end."""

    def __init__(self, key: RankKey, directory: RankDirectory, changed: Callable[[RankStatus], None]) -> None:
        self.directory = directory
        self.link = SupervisorLink(directory, self._hear)
        self.status = RankStatus(key, RankState.PREPARING)
        self._changed = changed

    async def follow(self) -> None:
        """Stay connected until the rank has exited; find out how it ended if nobody tells."""
        while not self._read_end():
            try:
                await self.link.hold()
            except OSError:
                if not self.directory.is_supervised():
                    await self._conclude()
                    return
                await asyncio.sleep(_RETRY_S)  # it is about to come, or about to go

    def _hear(self, message: Mapping[str, Any]) -> None:
        if message["state"] == RankState.EXITED:
            self._read_end()
        elif (state := RankState(message["state"])) is RankState.RUNNING or not self._has_begun:
            self._enter(replace(self.status, state=state, started_at_s=message["started_at_s"]))

    async def output_after(self, offset: int) -> None:
        """Wait until there may be output beyond a position. May return early."""
        if not self.has_exited:
            await self.link.output_after(offset)

    # -- where it stands -----------------------------------------------------------------------------------

    @property
    def has_exited(self) -> bool:
        return self.status.state is RankState.EXITED

    @property
    def _has_begun(self) -> bool:
        """It may be known from the record before its supervisor says so."""
        return self.status.state is RankState.RUNNING

    def recall(self) -> None:
        """Learn from the directory alone where the rank of an earlier executor stands."""
        if self._read_end():
            return
        record = self.directory.record()
        has_begun = record is not None and record.pid
        state = RankState.RUNNING if has_begun else RankState.READY
        started_at_s = self.directory.began_at_s() if has_begun else None
        self.status = replace(self.status, state=state, started_at_s=started_at_s)

    def _read_end(self) -> bool:
        record = None if self.has_exited else self.directory.record()
        if record and record.end:
            self._exit(rank_end(record.plan, record.end), record.end.started_at_s)
        return self.has_exited

    async def _conclude(self) -> None:
        """Its supervisor is gone without a word. Nothing may be left of a rank that counts as exited."""
        if self._read_end():
            return
        record = self.directory.record()
        if record is None or not record.pid:
            self.fail("its supervisor ended before the start")
            return
        rebooted = record.plan.boot != boot_id()
        if not rebooted:
            await kill_leftovers(self.directory.path, record.pid)
        cause = ExitCause.NODE_LOST if rebooted else ExitCause.UNKNOWN
        end = EndLine(None, self.directory.began_at_s(), time.time(), lost=cause)
        is_written = self.directory.write_end(end)
        self._exit(rank_end(record.plan, end), end.started_at_s)  # nobody shall wait for room on a disk
        if not is_written:
            await self._write_down(end)

    async def _write_down(self, end: EndLine) -> None:
        """An executor after this one shall find the end as well."""
        tries = 1
        while not self.directory.write_end(end):
            tries += 1
            await asyncio.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter

    def fail(self, message: str) -> None:
        """It never got to run, through no fault of the program."""
        self._exit(RankEnd(None, time.time(), cause=ExitCause.LAUNCH, message=message), None)

    def _exit(self, end: RankEnd, started_at_s: float | None) -> None:
        self._enter(replace(self.status, state=RankState.EXITED, started_at_s=started_at_s, end=end))
        self.link.wake()

    def _enter(self, status: RankStatus) -> None:
        if status == self.status or self.has_exited:
            return
        step(self.status.state, status.state)
        self.status = status
        self._changed(status)
