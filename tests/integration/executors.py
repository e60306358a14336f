"""An executor process on a real nats-server, and somebody who gives it orders."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gpuyard.bus.nats_bus import connect
from gpuyard.bus.port import Bus, From
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.fact import GangFact
from gpuyard.contracts.log import LogBatch, partition_of
from gpuyard.contracts.order import Order
from gpuyard.contracts.subjects import FACT, FACTS_STREAM, LOG, LOGS_STREAM, ORDER, STREAMS
from tests.natsd import NatsServer

GENEROUS_S = 90.0
_GLIMPSE_S = 3.0


class ExecutorProcess:
    """`python -m gpuyard_executor`, to be started, killed and started again."""

    def __init__(self, home: Path, url: str, *nodes: str, **environment: str) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self._config = home / "executor.toml"
        names = ", ".join(f'"{node}"' for node in nodes)
        self._config.write_text(f'[bus]\nurl = "{url}"\n[executor]\nnodes = [{names}]\ndir = "{home}"\n')
        self._log = home / "executor.log"
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "gpuyard_executor", "--config", str(self._config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        assert self._process
        self._process.send_signal(how)
        return self._process.wait(GENEROUS_S)

    def kill_at(self, path: str) -> None:
        """kill -9 at the moment when a path below node n1 appears; later, if it was there too briefly."""
        wanted, forgotten = self.home / "n1" / path, time.monotonic() + _GLIMPSE_S
        while not wanted.exists() and time.monotonic() < forgotten:
            pass
        self.kill()

    def wait(self) -> int:
        """Wait for its end; returns its exit code."""
        assert self._process
        return self._process.wait(GENEROUS_S)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")


class Commander:
    """Gives orders to a node and reads what comes of them."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus

    async def give(self, order: Order, **headers: str) -> None:
        await self.bus.append(ORDER(node=order.node), encode(order), headers=headers)

    async def fact(self, job: str, is_it: Callable[[GangFact], bool], node: str = "n1") -> GangFact:
        """The first fact of the job that is as wanted, old ones included."""
        subject = FACT(node=node, job=job)
        async with asyncio.timeout(GENEROUS_S):
            async with self.bus.read(FACTS_STREAM, subject, start=From.LAST_PER_SUBJECT) as reader:
                async for message in reader:
                    fact = decode(message.payload, GangFact)
                    if is_it(fact):
                        return fact
        raise AssertionError("unreachable")

    async def batch(self, job: str, attempt: int, rank: int, *, after_seq: int) -> LogBatch:
        """The first batch of a rank with lines after this one."""
        subject = LOG(partition=partition_of(job), job=job, attempt=attempt, rank=rank)
        async with asyncio.timeout(GENEROUS_S), self.bus.read(LOGS_STREAM, subject) as reader:
            async for message in reader:
                batch = decode(message.payload, LogBatch)
                if batch.next_seq > after_seq:
                    return batch
        raise AssertionError("unreachable")

    async def output(self, job: str, attempt: int, rank: int) -> list[LogBatch]:
        """All batches of a rank, to its end."""
        batches: list[LogBatch] = []
        subject = LOG(partition=partition_of(job), job=job, attempt=attempt, rank=rank)
        async with asyncio.timeout(GENEROUS_S), self.bus.read(LOGS_STREAM, subject) as reader:
            async for message in reader:
                batches.append(decode(message.payload, LogBatch))
                if batches[-1].end:
                    return batches
        raise AssertionError("unreachable")


@asynccontextmanager
async def commander(server: NatsServer) -> AsyncIterator[Commander]:
    async with connect(server.url, "test-scheduler") as bus:
        await bus.ensure(STREAMS)
        yield Commander(bus)


def released(fact: GangFact) -> bool:
    return fact.released
