"""A Docker engine of the executor on a daemon, and short words for what tests do with it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from itertools import count
from pathlib import Path
from typing import Any

from docker import APIClient

from gpuyard.contracts.fact import RankState
from gpuyard_executor.core.rank import ERR, OUT, RankKey, RankPlan, RankStatus
from gpuyard_executor.docker_engine import DockerEngine
from gpuyard_executor.docker_runtime import DockerRuntime
from gpuyard_executor.spawner_handle import SpawnerHandle
from tests.docker.daemon import Daemon
from tests.docker.runtime import docker_runtime

GENEROUS_S = 60.0
_jobs = count(1)


class Rig:
    """`run` a command, wait for its `end`, read its `text`."""

    def __init__(self, daemon: Daemon, engine: DockerEngine, runtime: DockerRuntime, home: Path) -> None:
        self.daemon = daemon
        self.engine = engine
        self.home = home
        self._owner = runtime.owner

    async def prepare(self, *command: str, key: RankKey | None = None, **plan: Any) -> RankKey:
        key = key or new_key()
        workdir = self.home / "work" / str(key.gang)
        workdir.mkdir(parents=True, exist_ok=True)
        workdir.chmod(0o777)
        await self.engine.prepare(RankPlan(key, command, str(workdir), **plan))
        return key

    async def run(
        self, *command: str, key: RankKey | None = None, env: Mapping[str, str] | None = None, **plan: Any
    ) -> RankKey:
        key = await self.prepare(*command, key=key, **plan)
        if (await self.status(key, RankState.READY, RankState.EXITED)).state is RankState.READY:
            await self.engine.start(key, env or {})
        return key

    async def status(self, key: RankKey, *states: RankState) -> RankStatus:
        """The rank's status, once it is in one of these states."""
        async with asyncio.timeout(GENEROUS_S):
            while True:
                for status in await self.engine.list():
                    if status.key == key and status.state in states:
                        return status
                await asyncio.wait_for(anext(self.engine.changes()), GENEROUS_S)
        raise AssertionError("unreachable")

    async def end(self, key: RankKey) -> RankStatus:
        return await self.status(key, RankState.EXITED)

    async def output(self, key: RankKey, stream: int = OUT) -> bytes:
        """All that it printed, once it has ended."""
        async with asyncio.timeout(GENEROUS_S):
            chunks = [chunk async for page in self.engine.output(key) for chunk in page]
        return b"".join(chunk.data for chunk in chunks if chunk.stream == stream)

    async def text(self, *command: str, **more: Any) -> str:
        """What a command prints that must end well."""
        key = await self.run(*command, **more)
        status = await self.end(key)
        printed = (await self.output(key)).decode()
        assert status.end
        assert status.end.code == 0, (status.end, printed, await self.output(key, ERR))
        return printed

    async def until_prints(self, key: RankKey) -> None:
        async for _ in self.engine.output(key):
            return


def new_key() -> RankKey:
    return RankKey(f"job-{next(_jobs)}", 1, 0)


@asynccontextmanager
async def rig_at(daemon: Daemon, home: Path, **settings: Any) -> AsyncIterator[Rig]:
    """An executor's engine for a while; ranks go on after it, as after an executor's end."""
    with closing(SpawnerHandle()) as spawner, closing(docker_runtime(daemon, spawner, **settings)) as runtime:
        async with runtime.engine(home) as engine:
            yield Rig(daemon, engine, runtime, home)


def names(client: APIClient) -> set[str]:
    """Names of all containers of a daemon."""
    return {each["Names"][0].removeprefix("/") for each in client.containers(all=True)}


def bridges(client: APIClient) -> set[str]:
    return {network["Name"] for network in client.networks() if network["Driver"] == "bridge"}
