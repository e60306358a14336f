"""Runs ranks as plain processes, each under a supervisor that outlives the executor.

The calls here touch small local files without leaving the event loop: they cost tens of microseconds, a hop
to a thread and back costs more.
"""

import asyncio
import os
import random
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import structlog

from gpuyard.runtime.retry import backoff_s
from gpuyard.telemetry.logs import Log
from gpuyard_executor.core.rank import RankKey, RankPlan, RankStatus, parse_rank_key
from gpuyard_executor.engine import OutputChunk
from gpuyard_executor.home import hold_home
from gpuyard_executor.leftovers import MARK
from gpuyard_executor.rank_directory import Limits, RankDirectory
from gpuyard_executor.spawner_handle import SpawnerHandle
from gpuyard_executor.spool_reader import delete_segments, follow_spool
from gpuyard_executor.supervised_rank import SupervisedRank


class ProcessEngine:
    """Ranks below one directory. Use as `async with`; leaving disconnects and stops nothing."""

    def __init__(self, directory: Path, spawner: SpawnerHandle, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        self._home = directory.absolute()
        self._spawner = spawner
        self._limits = limits
        self._ranks: dict[RankKey, SupervisedRank] = {}
        self._changes: asyncio.Queue[RankStatus] = asyncio.Queue()
        self._following: set[asyncio.Task[None]] = set()
        self._guard = -1
        self._log: Log = structlog.get_logger(service="executor")

    async def __aenter__(self) -> "ProcessEngine":
        self._guard = hold_home(self._home, is_container=False)
        await self._adopt()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)
        for rank in self._ranks.values():
            rank.link.disconnect()
        os.close(self._guard)

    def directory(self, key: RankKey) -> Path:
        """Where a rank's files lie."""
        return self._home / "ranks" / str(key)

    async def list(self) -> Sequence[RankStatus]:
        while not self._changes.empty():
            self._changes.get_nowait()
        return [rank.status for rank in self._ranks.values()]

    async def changes(self) -> AsyncIterator[RankStatus]:
        while True:
            yield await self._changes.get()

    async def prepare(self, plan: RankPlan) -> None:
        if plan.key in self._ranks:
            return
        rank = self._ranks[plan.key] = self._new_rank(plan.key)
        if plan.box.image:
            rank.fail(f"it wants the image `{plan.box.image}`, but this node runs plain processes")
            return
        try:
            self._set_up(rank, plan)
        except OSError as error:
            rank.fail(f"it could not be prepared: {error.strerror or error}")
        else:
            self._follow(rank)

    def _set_up(self, rank: SupervisedRank, plan: RankPlan) -> None:
        with rank.directory.create(plan, self._limits) as fds:
            self._spawner.spawn(*fds)

    async def start(self, key: RankKey, env: Mapping[str, str]) -> None:
        rank = self._ranks[key]
        rank.link.tell({"do": "start", "env": {**env, MARK: str(rank.directory.path)}})

    async def stop(self, key: RankKey, grace_s: float) -> None:
        if rank := self._ranks.get(key):
            rank.link.tell({"do": "stop", "grace_s": grace_s})

    def output(self, key: RankKey, offset: int = 0) -> AsyncGenerator[Sequence[OutputChunk], None]:
        rank = self._ranks[key]
        return follow_spool(rank.directory.path, offset, rank)

    async def remove(self, key: RankKey, *, output_before: int | None = None) -> None:
        rank = self._ranks.get(key)
        if rank is None:
            return
        if output_before is not None:
            delete_segments(rank.directory.path, output_before)
            return
        assert rank.has_exited, f"{key} still runs"
        del self._ranks[key]
        rank.link.disconnect()
        await asyncio.to_thread(shutil.rmtree, rank.directory.path, ignore_errors=True)

    async def _adopt(self) -> None:
        """Find the ranks of an executor before this one. What never ran is forgotten, to be prepared anew."""
        for path in sorted((self._home / "ranks").iterdir()):
            key = parse_rank_key(path.name)
            if key is None:
                continue
            rank = self._new_rank(key)
            record = rank.directory.record()
            has_begun = record and (record.pid or record.end)
            if not has_begun and not rank.directory.is_supervised():
                await asyncio.to_thread(shutil.rmtree, path)
                continue
            self._ranks[key] = rank
            rank.recall()
            self._follow(rank)

    def _new_rank(self, key: RankKey) -> SupervisedRank:
        return SupervisedRank(key, RankDirectory(self.directory(key)), self._changes.put_nowait)

    def _follow(self, rank: SupervisedRank) -> None:
        task = asyncio.create_task(self._follow_to_end(rank))
        self._following.add(task)
        task.add_done_callback(self._following.discard)

    async def _follow_to_end(self, rank: SupervisedRank) -> None:
        tries = 0
        while True:
            try:
                await rank.follow()
            except Exception as error:  # noqa: BLE001 - a rank that nobody follows would run for ever
                tries += 1
                self._log.error("rank is followed again", rank=str(rank.status.key), error=repr(error))
                await asyncio.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter
            else:
                return
