"""Ranks that live in memory: the same promises as the process engine, without a process. Made for tests.

What a rank does is looked up by the first word of its command. Ranks live in `world`; a second engine on the
same world finds them again, as after a restart of the executor.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.rank import OUT, RankEnd, RankKey, RankPlan, RankStatus
from gpuyard_executor.core.states import step
from gpuyard_executor.engine import OutputChunk
from gpuyard_executor.launch_failure import describe_launch_failure

_SIGTERM, _SIGKILL, _NO_SUCH_FILE = 15, 9, 2


@dataclass(frozen=True, slots=True)
class Script:
    """What a command does: prints, then exits, or runs until it is ended by a stop or by `finish`."""

    output: Sequence[tuple[int, bytes]] = ()
    code: int | None = 0
    """None: it does not end by itself."""
    ignores_term: bool = False


@dataclass
class _Rank:
    plan: RankPlan
    status: RankStatus
    env: Mapping[str, str] = field(default_factory=dict)
    chunks: list[OutputChunk] = field(default_factory=list)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: bool = False
    kill: asyncio.TimerHandle | None = None


World = dict[RankKey, _Rank]


class MemoryEngine:
    """Plays the scripts. A command without a script is not found."""

    def __init__(self, scripts: Mapping[str, Script], world: World | None = None) -> None:
        self.world: World = {} if world is None else world
        self.started: dict[RankKey, int] = defaultdict(int)
        """How often each rank was really started; more than once would be a bug of the caller."""
        self._scripts = scripts
        self._changes: asyncio.Queue[RankStatus] = asyncio.Queue()

    def env(self, key: RankKey) -> Mapping[str, str]:
        """The environment a rank was started with."""
        return self.world[key].env

    def print(self, key: RankKey, data: bytes, stream: int = OUT) -> None:
        """Let a running rank print."""
        rank = self.world[key]
        offset = rank.chunks[-1].next_offset if rank.chunks else 0
        rank.chunks.append(OutputChunk(stream, time.time(), data, offset, offset + len(data)))
        rank.more.set()

    def finish(self, key: RankKey, code: int = 0) -> None:
        """Let a running rank exit."""
        self._exit(self.world[key], RankEnd(code, time.time(), self.world[key].stopped))

    async def list(self) -> Sequence[RankStatus]:
        while not self._changes.empty():
            self._changes.get_nowait()
        return [rank.status for rank in self.world.values()]

    async def changes(self) -> AsyncIterator[RankStatus]:
        while True:
            yield await self._changes.get()

    async def prepare(self, plan: RankPlan) -> None:
        if plan.key not in self.world:
            rank = self.world[plan.key] = _Rank(plan, RankStatus(plan.key, RankState.PREPARING))
            self._enter(rank, replace(rank.status, state=RankState.READY))

    async def start(self, key: RankKey, env: Mapping[str, str]) -> None:
        rank = self.world[key]
        if rank.status.state is not RankState.READY:
            return
        script = self._scripts.get(rank.plan.command[0])
        if script is None:
            code, message = describe_launch_failure(
                "exec", _NO_SUCH_FILE, rank.plan.command[0], rank.plan.cwd
            )
            self._exit(rank, RankEnd(code, time.time(), cause=ExitCause.LAUNCH, message=message))
            return
        rank.env = dict(env)
        self.started[key] += 1
        self._enter(rank, replace(rank.status, state=RankState.RUNNING, started_at_s=time.time()))
        for stream, data in script.output:
            self.print(key, data, stream)
        if script.code is not None:
            self.finish(key, script.code)

    async def stop(self, key: RankKey, grace_s: float) -> None:
        rank = self.world.get(key)
        if rank is None or rank.status.state is RankState.EXITED:
            return
        rank.stopped = True
        if rank.status.state is RankState.READY:
            self._exit(rank, RankEnd(None, time.time(), stopped=True))
        elif not self._scripts[rank.plan.command[0]].ignores_term:
            self.finish(key, 128 + _SIGTERM)
        else:
            self._kill_after(rank, grace_s)

    async def output(self, key: RankKey, offset: int = 0) -> AsyncGenerator[Sequence[OutputChunk], None]:
        rank = self.world[key]
        while True:
            is_complete = rank.status.state is RankState.EXITED
            chunks = [chunk for chunk in rank.chunks if chunk.offset >= offset]
            if chunks:
                offset = chunks[-1].next_offset
                yield chunks
            elif is_complete:
                return
            else:
                rank.more.clear()
                await rank.more.wait()

    async def remove(self, key: RankKey, *, output_before: int | None = None) -> None:
        rank = self.world.get(key)
        if rank is None:
            return
        if output_before is not None:
            rank.chunks = [chunk for chunk in rank.chunks if chunk.next_offset > output_before]
            return
        assert rank.status.state is RankState.EXITED, f"{key} still runs"
        del self.world[key]

    def _kill_after(self, rank: _Rank, grace_s: float) -> None:
        loop = asyncio.get_running_loop()
        if rank.kill is None or loop.time() + grace_s < rank.kill.when():
            if rank.kill:
                rank.kill.cancel()
            rank.kill = loop.call_later(grace_s, self.finish, rank.plan.key, 128 + _SIGKILL)

    def _exit(self, rank: _Rank, end: RankEnd) -> None:
        if rank.kill:
            rank.kill.cancel()
        self._enter(rank, replace(rank.status, state=RankState.EXITED, end=end))
        rank.more.set()

    def _enter(self, rank: _Rank, status: RankStatus) -> None:
        step(rank.status.state, status.state)
        rank.status = status
        self._changes.put_nowait(status)
