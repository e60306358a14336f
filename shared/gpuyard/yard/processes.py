"""Keeping a program running: start, watch, start again, stop.

Each runs in a session of its own, so that Ctrl-C in the terminal reaches `gpuyard up` alone, which then stops
everything in order. The kernel kills it when `gpuyard up` dies, however it dies (PR_SET_PDEATHSIG): a yard
never leaves services behind. That is not inherited: the ranks' supervisors, started by the executor, live on.
"""

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpuyard.contracts.errors import Unavailable
from gpuyard.yard import logfile
from gpuyard.yard.restart import after_exit

PR_SET_PDEATHSIG = 1
_POLL_S = 0.03
# Loaded here: between fork and exec nothing may be looked up any more.
_prctl = ctypes.CDLL(None, use_errno=True).prctl


@dataclass(frozen=True)
class Program:
    """What to run, and how to see that it works."""

    name: str
    argv: tuple[str, ...]
    log: Path
    is_ready: Callable[[], Awaitable[bool]]
    health_port: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None


class Watched:
    """One program, kept running from `start` to `stop`.

    Args:
        program: What to run.
        on_change: Called with a sentence whenever it ended or was started again.

    """

    def __init__(self, program: Program, on_change: Callable[[str], None] = lambda _: None) -> None:
        self.program = program
        self.falls = 0
        self.exit_code: int | None = None
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    def start(self) -> None:
        self._keeping = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait until it works.

        Raises:
            Unavailable: it ended instead, or took too long.

        """
        deadline_s = time.monotonic() + timeout_s
        while not await self.program.is_ready():
            if self.falls:
                raise self._failed(f"{self.name} ended instead of getting ready (code {self.exit_code})")
            if time.monotonic() > deadline_s:
                raise self._failed(f"{self.name} did not get ready within {timeout_s:.0f} s")
            await asyncio.sleep(_POLL_S)

    async def let_go(self) -> None:
        """From now on it is not started again."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))

    async def stop(self, grace_s: float) -> None:
        """End it for good: ask, wait, kill."""
        await self.let_go()
        process = self._process
        if process is None or process.returncode is not None:
            return
        _send(process, signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            self._on_change(f"{self.name} does not end, killing it")
            self.kill()
            await process.wait()

    def kill(self, why: str = "") -> None:
        """End it at once; unless it was let go, it is then started again."""
        if why:
            self._on_change(f"{why}, killing it")
        if self._process is not None:
            _send(self._process, signal.SIGKILL)

    async def _keep(self) -> None:
        while True:
            started_s = time.monotonic()
            what = await self._run_once()
            self.falls, delay_s = after_exit(self.falls, time.monotonic() - started_s)
            self._on_change(f"{what}; starting it again in {delay_s:g} s")
            await asyncio.sleep(delay_s)

    async def _run_once(self) -> str:
        try:
            self._process = await _spawn(self.program)
        except OSError as error:
            return f"{self.name} can't be started: {error}"
        self._on_change(f"{self.name} runs as pid {self._process.pid}")
        self.exit_code = await self._process.wait()
        return f"{self.name} ended with code {self.exit_code}"

    def _failed(self, what: str) -> Unavailable:
        lines = logfile.last_lines(self.program.log, 1)
        why = f": {lines[0]}" if lines else ""
        return Unavailable(what + why, f"The whole story is in {self.program.log}.", service=self.name)


async def _spawn(program: Program) -> asyncio.subprocess.Process:
    logfile.rotate(program.log)
    log = logfile.open_log(program.log)
    try:
        return await asyncio.create_subprocess_exec(
            *program.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(program.environment),
            cwd=program.folder,
            start_new_session=True,
            preexec_fn=partial(_die_with_parent, os.getpid()),
        )
    finally:
        os.close(log)


def _die_with_parent(parent_pid: int) -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)  # it died before we asked to be told


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)
