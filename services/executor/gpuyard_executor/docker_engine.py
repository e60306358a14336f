"""Runs ranks in containers of a Docker engine, which live on while this executor, or the engine, is away.

How output gets from a container to its spool, and why not through the engine: docs/decisions/0008.
"""

import asyncio
import os
import random
import shutil
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from gpuyard.runtime.retry import backoff_s
from gpuyard_executor.core.container import HOME_LABEL, RANK_LABEL
from gpuyard_executor.core.container_end import Outage
from gpuyard_executor.core.rank import GangKey, RankKey, RankPlan, RankStatus, parse_rank_key
from gpuyard_executor.docker_directory import DockerDirectory
from gpuyard_executor.docker_dock import Dock
from gpuyard_executor.docker_rank import DockerRank
from gpuyard_executor.engine import OutputChunk
from gpuyard_executor.home import hold_home
from gpuyard_executor.spool_reader import delete_segments, follow_spool

_PATROL_S = 30.0


class DockerEngine:
    """Containers that bear this home's label. Use as `async with`; leaving stops nothing.

    One with another label, or none, is never touched.
    """

    def __init__(self, home: Path, prefix: str, dock: Dock) -> None:
        self._home = home
        self._prefix = prefix
        self._dock = dock
        dock.has_ranks = self._has_ranks
        self._label = f"{HOME_LABEL}={home}"
        self._ranks: dict[RankKey, DockerRank] = {}
        self._changes: asyncio.Queue[RankStatus] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._guard = -1

    async def __aenter__(self) -> "DockerEngine":
        self._guard = hold_home(self._home, is_container=True)
        await self._adopt()
        self._run(self._watch())
        self._run(self._patrol())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for rank in self._ranks.values():
            await rank.close()
        os.close(self._guard)

    # -- the protocol --------------------------------------------------------------------------------------

    async def list(self) -> Sequence[RankStatus]:
        while not self._changes.empty():
            self._changes.get_nowait()
        return [rank.status for rank in self._ranks.values()]

    async def changes(self) -> AsyncIterator[RankStatus]:
        while True:
            yield await self._changes.get()

    async def prepare(self, plan: RankPlan) -> None:
        if plan.key not in self._ranks:
            rank = self._ranks[plan.key] = self._new_rank(plan.key)
            self._run(self._live(rank, plan))

    async def start(self, key: RankKey, env: Mapping[str, str]) -> None:
        self._ranks[key].start(env)

    async def stop(self, key: RankKey, grace_s: float) -> None:
        if rank := self._ranks.get(key):
            rank.stop(grace_s)

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
        await asyncio.to_thread(shutil.rmtree, rank.directory.path, ignore_errors=True)

    # -- ranks ---------------------------------------------------------------------------------------------

    async def _adopt(self) -> None:
        """Find the ranks of an executor before this one. One that was not made to the end is made anew."""
        for path in sorted((self._home / "ranks").iterdir()):
            key = parse_rank_key(path.name)
            if key is None:
                continue
            rank = self._new_rank(key)
            if rank.directory.record() is None:
                await asyncio.to_thread(shutil.rmtree, path)
                continue
            self._ranks[key] = rank
            rank.recall()
            self._run(self._live(rank))

    def _new_rank(self, key: RankKey) -> DockerRank:
        directory = DockerDirectory(self._home / "ranks" / str(key))
        return DockerRank(key, f"{self._prefix}{key}", directory, self._dock, self._changes.put_nowait)

    def _has_ranks(self, gang: GangKey) -> bool:
        return any(key.gang == gang and not rank.is_leaving for key, rank in self._ranks.items())

    async def _live(self, rank: DockerRank, plan: RankPlan | None = None) -> None:
        if plan:
            await rank.prepare(plan)
        tries = 0
        while not rank.has_exited:
            try:
                await rank.follow()
            except Exception as error:  # noqa: BLE001 - a rank that nobody follows would run for ever
                tries += 1
                self._dock.log.error("rank is followed again", rank=rank.name, error=repr(error))
                await asyncio.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter

    # -- what the engine tells -----------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Listen to the engine's events; look at everything anew whenever it comes back."""
        tries = 0
        while True:
            try:
                async with aclosing(self._dock.api.events(self._label)) as names:
                    async for name in names:
                        tries = 0
                        await self._hear(name)
            except Exception as error:  # noqa: BLE001 - whatever it is, later exits must not be missed
                tries += 1
                self._lose_sight(error)
                await asyncio.sleep(backoff_s(tries, chance=random.random()))  # noqa: S311 - jitter

    async def _hear(self, name: str) -> None:
        if name:
            key = parse_rank_key(name.removeprefix(self._prefix))
            if key and key in self._ranks:
                self._ranks[key].nudge()
            return
        if self._dock.outage.to_s is None and self._dock.outage.from_s is not None:
            self._dock.outage = Outage(self._dock.outage.from_s, time.time())
        await self._look_around()

    def _lose_sight(self, error: Exception) -> None:
        self._dock.log.warning("the container engine is away", error=str(error))
        if self._dock.outage.to_s is not None or self._dock.outage.from_s is None:
            self._dock.outage = Outage(time.time())

    async def _patrol(self) -> None:
        """An event may get lost."""
        while True:
            await asyncio.sleep(_PATROL_S)
            with suppress(Exception):  # the watch, which asks the same engine, says what is wrong
                await self._look_around()

    async def _look_around(self) -> None:
        for container in await self._dock.api.containers(self._label):
            key = parse_rank_key(container["Labels"].get(RANK_LABEL, ""))
            rank = self._ranks.get(key) if key else None
            if rank is None or rank.has_exited:
                name = container["Names"][0].removeprefix("/")
                self._dock.log.warning("container that nobody ordered is removed", container=name)
                await self._dock.api.remove(name)
        alive = {key.gang for key, rank in self._ranks.items() if not rank.has_exited}
        await self._dock.networks.sweep(alive)
        for rank in self._ranks.values():
            rank.nudge()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
