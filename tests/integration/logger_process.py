"""The logger as a process of its own, and a writer that behaves like an executor."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from gpuyard.bus.port import Bus
from gpuyard.contracts.codec import encode
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.log import OUT, LogBatch, LogChunk, partition_of
from gpuyard.contracts.subjects import LOG
from tests.natsd import free_port

WITHIN_S = 100.0


class LoggerProcess:
    """`python -m gpuyard_logger` on a folder; keeps folder and port from one start to the next."""

    def __init__(self, folder: Path, url: str, store: Path, tables: str = "", /, **settings: float) -> None:
        self.store = store
        self._port = free_port()
        self._config = folder / "logger.toml"
        self._log = folder / "logger.log"
        more = "".join(f"{key} = {value}\n" for key, value in settings.items())
        self._config.write_text(
            f'[bus]\nurl = "{url}"\n[logger]\ndir = "{store}"\nhealth_port = {self._port}\n{more}{tables}'
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start, and return once it is ready."""
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "gpuyard_logger", "--config", str(self._config)]
            self._process = subprocess.Popen(
                command, stderr=log, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
            )
        await self.until_health(ready=True)

    async def until_health(self, *, ready: bool) -> dict[str, Any]:
        """Wait until /readyz says so; the whole report."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                report = await asyncio.to_thread(self._health)
                if report is not None and report["ready"] is ready:
                    return report
                assert self._process is not None
                assert self._process.poll() is None, self.log
                await asyncio.sleep(0.02)

    def kill(self) -> None:
        """kill -9, and bury it."""
        self.end(signal.SIGKILL)

    def send(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int | None:
        if self._process is None:
            return None
        self._process.send_signal(how)
        code = self._process.wait(WITHIN_S)
        self._process = None
        return code

    def _health(self) -> dict[str, Any] | None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            report: dict[str, Any] = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return report


def text_of(rank: int, seq: int) -> bytes:
    """A line of about 100 bytes, like those of a training program."""
    head = b"rank %d step %07d loss 0.%06d " % (rank, seq, seq * 7919 % 1_000_000)
    return head.ljust(99, b".")


def batch_of(job: str, rank: int, first_seq: int, next_seq: int, *, end: bool = False) -> LogBatch:
    data = b"".join(text_of(rank, seq) + b"\n" for seq in range(first_seq, next_seq))
    chunks = (LogChunk(OUT, float(first_seq), data),) if data else ()
    return LogBatch(job, 1, rank, first_seq, next_seq, chunks, end=end)


def batches_of(
    job: str, rank: int, seqs: Sequence[int], per_batch: int, chance: Random
) -> Iterator[LogBatch]:
    """Batches over the lines, now and then with an overlap or a repeat, as after a lost answer."""
    for first in range(seqs[0], seqs[-1] + 1, per_batch):
        overlap = chance.choice([0, 0, 0, chance.randint(1, per_batch)])
        batch = batch_of(job, rank, max(0, first - overlap), min(first + per_batch, seqs[-1] + 1))
        yield from [batch] * chance.choice([1, 1, 1, 2])


async def append(bus: Bus, batch: LogBatch) -> int:
    """Append until it is on disk; the sequence."""
    subject = LOG(partition=partition_of(batch.job), job=batch.job, attempt=batch.attempt, rank=batch.rank)
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                return (await bus.append(subject, encode(batch))).seq
            except Unavailable:
                await asyncio.sleep(0.05)
