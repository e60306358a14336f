"""A whole yard for tests: the real `gpuyard up`, nats-server and services on simulated nodes."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gpuyard import AsyncClient
from gpuyard.client import locate
from gpuyard.client.locate import YardFile
from gpuyard.contracts.log import LogLine
from gpuyard.yard import start
from gpuyard.yard.nodes import Node
from gpuyard.yard.options import Options

GENEROUS_S = 90.0


class RealYard:
    """A running yard in a directory. `gpuyard up` restarts what a test kills."""

    def __init__(self, root: Path, *captures: str) -> None:
        self.root = root
        self.options = Options(str(root), tuple(Node(f"n{i}", name) for i, name in enumerate(captures)))

    def up(self) -> None:
        start.leave_behind(self.options)

    @property
    def file(self) -> YardFile:
        yard = locate.load(self.root)
        assert yard is not None
        return yard

    def client(self, **more: Any) -> AsyncClient:
        return AsyncClient(dir=self.root, **more)

    async def kill_9(self, service: str) -> None:
        """Kill a service and wait until `up` has started another."""
        pid = await self.pid_of(service)
        os.kill(pid, signal.SIGKILL)
        while await self.pid_of(service) == pid:
            await asyncio.sleep(0.02)

    async def pid_of(self, service: str) -> int:
        """The service's process, once there is one: while it is started anew it is not in the file."""
        while (running := self.file.services.get(service)) is None:
            await asyncio.sleep(0.02)
        return running.pid

    def end(self) -> None:
        """End everything, and whatever ran in it."""
        holder = locate.lock_holder(self.root)
        if holder:
            os.kill(holder, signal.SIGKILL)
        for pid in _naming(self.root):
            with suppress(ProcessLookupError):  # it may end by itself meanwhile
                os.kill(pid, signal.SIGKILL)


@contextmanager
def real_yard(root: Path, *captures: str) -> Iterator[RealYard]:
    yard = RealYard(root, *captures)
    try:
        yard.up()
        yield yard
    finally:
        yard.end()


def _naming(root: Path) -> list[int]:
    """Processes whose command line or current directory lies in the yard."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
            if str(root) in words or str((process / "cwd").readlink()).startswith(str(root)):
                found.append(int(process.name))
        except OSError:
            continue
    return found


async def lines_by_rank(client: AsyncClient, job: str) -> dict[int, list[LogLine]]:
    """Every stored or still travelling line of a job, to its end, rank by rank."""
    ranks: dict[int, list[LogLine]] = {}
    async for line in client.logs(job, follow=True):
        ranks.setdefault(line.rank, []).append(line)
    return ranks
