"""One rank in a container, from its preparation, or from being found again, to its end.

Level-triggered: whenever something may have changed, the engine is asked how the container stands, and the
difference to what is wanted is made up. So it matters neither what was missed nor who began.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgspec

from gpuyard.contracts.errors import Conflict, NotFound, Refused, Unavailable
from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause
from gpuyard_executor.core.container_end import ContainerView, end_of, parse_view
from gpuyard_executor.core.container_script import parse_failure, render_script
from gpuyard_executor.core.rank import RankEnd, RankKey, RankPlan, RankStatus
from gpuyard_executor.core.states import step
from gpuyard_executor.docker_directory import DockerDirectory
from gpuyard_executor.docker_dock import Dock
from gpuyard_executor.docker_leftovers import has_leftovers, kill_leftovers
from gpuyard_executor.docker_maker import Unmakeable
from gpuyard_executor.rank_directory import boot_id, rank_end
from gpuyard_executor.rank_record import EndLine
from gpuyard_executor.supervisor_link import SupervisorLink

_RETRY_S = 0.01
_NO_ROOM_S = 0.2
_AGAIN_S = 1.0
_LAUNCH_CODES = (125, 126, 127)

Changed = Callable[[RankStatus], None]


class DockerRank:
    """`prepare` or `recall`, then `follow`; meanwhile `start` and `stop` say what is wanted."""

    def __init__(
        self, key: RankKey, name: str, directory: DockerDirectory, dock: Dock, changed: Changed
    ) -> None:
        self.name = name
        self.directory = directory
        self.status = RankStatus(key, RankState.PREPARING)
        self.link = SupervisorLink(directory, self._hear)
        self._dock = dock
        self._changed = changed
        self._nudged = asyncio.Event()
        self._stopped = asyncio.Event()
        self._kill_at_s = float("inf")
        self._is_signalled = False
        self._is_leaving = False
        self._container = ""
        """The container's id, once it is known."""
        self._end: EndLine | None = None
        self._keeping: asyncio.Task[None] | None = None
        self._attended = asyncio.Event()
        """Its keeper has the pipes open."""

    @property
    def has_exited(self) -> bool:
        return self.status.state is RankState.EXITED

    @property
    def is_leaving(self) -> bool:
        """Whether it needs its gang's network no more."""
        return self._is_leaving or self.has_exited

    # -- what is wanted ------------------------------------------------------------------------------------

    def start(self, env: Mapping[str, str]) -> None:
        """Only the first start counts, and none after a stop."""
        if not (self.has_exited or self.directory.has_begun or self.directory.stopped_at_s):
            self.directory.write_script(render_script(env), self._dock.owner)
            self.nudge()

    def stop(self, grace_s: float) -> None:
        """Of several deadlines the earliest holds."""
        if not self.has_exited:
            self.directory.note_stop()
            self._kill_at_s = min(self._kill_at_s, time.monotonic() + grace_s)
            self._stopped.set()
            self.nudge()

    def nudge(self) -> None:
        """Something may have changed."""
        self._nudged.set()

    async def output_after(self, offset: int) -> None:
        """Wait until there may be output beyond a position. May return early."""
        if not self.has_exited:
            await self.link.output_after(offset)

    # -- life ----------------------------------------------------------------------------------------------

    def recall(self) -> None:
        """Learn from the directory alone where the rank of an earlier executor stands."""
        record = self.directory.record()
        if record and record.end:
            self._exit(rank_end(record.plan, record.end), record.end.started_at_s)
            return
        state = RankState.RUNNING if self.directory.has_begun else RankState.READY
        self.status = replace(self.status, state=state, started_at_s=self.directory.began_at_s())

    async def prepare(self, plan: RankPlan) -> None:
        """Make its container, or tell why there can't be one."""
        pipes = str(self.directory.pipes)
        try:
            self.directory.make(self._dock.owner)
            making = self._dock.insist(lambda: self._dock.maker.make(self.name, plan, pipes))
            if not await self._unless_stopped(making):
                await self._leave(RankEnd(None, time.time(), stopped=True))
                return
            self.directory.write_plan(plan, self._dock.limits)
        except Unmakeable as error:
            await self._leave(RankEnd(None, time.time(), cause=error.cause, message=error.message))
        except OSError as error:
            message = f"it could not be prepared: {error.strerror or error}"
            await self._leave(RankEnd(None, time.time(), cause=ExitCause.LAUNCH, message=message))

    async def follow(self) -> None:
        """Bring about what is wanted, until it has exited."""
        if self.directory.has_begun:
            self._keep()
        while not self.has_exited:
            self._nudged.clear()
            patience_s = await self._advance(await self._view())
            if not self.has_exited:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._nudged.wait(), patience_s)

    async def close(self) -> None:
        """Leave it as it is."""
        self.link.disconnect()
        if self._keeping:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))

    async def _unless_stopped(self, work: Awaitable[None]) -> bool:
        """Do it, or leave it when the rank is told to stop; tell whether it was done."""
        working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(self._stopped.wait())
        try:
            await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
            return working.done()
        finally:
            working.cancel()
            stopping.cancel()

    async def _view(self) -> ContainerView | None:
        raw = await self._dock.insist(lambda: self._dock.api.inspect(self.name))
        view = parse_view(raw) if raw else None
        self._container = view.id if view else self._container
        return view

    async def _advance(self, view: ContainerView | None) -> float | None:
        """Take the next step; returns how long to wait for the one after it, None for news only."""
        if view is None:
            await self._conclude(self._lost())
        elif view.is_over:
            await self._conclude(await self._learn_end(view))
        elif view.status != "created":
            self._enter(replace(self.status, state=RankState.RUNNING, started_at_s=view.started_at_s))
            return await self._press()
        elif self.directory.stopped_at_s is not None:
            await self._conclude(EndLine(None, None, time.time(), stopped=True))
        elif self.directory.has_begun:
            return await self._launch()
        elif self.status.state is RankState.PREPARING:
            self._enter(replace(self.status, state=RankState.READY))
        return None

    # -- steps ---------------------------------------------------------------------------------------------

    async def _launch(self) -> float:
        """Start the container once its keeper has the pipes open: what it prints must not go with it."""
        self._keep()
        if not self._attended.is_set():
            return _AGAIN_S
        try:
            if await has_leftovers(self._container):
                raise Refused("the container engine was killed while it started it")
            await self._dock.api.start(self.name)
        except Unavailable:
            return _AGAIN_S
        except (NotFound, Conflict, Refused) as error:
            is_lost = await has_leftovers(self._container)
            cause = ExitCause.NODE_LOST if is_lost else ExitCause.LAUNCH
            message = f"its container can't be started: {error.message}"
            await self._conclude(EndLine(None, None, time.time(), cause=cause, message=message))
        return 0.0

    async def _press(self) -> float | None:
        """Signal once after a stop; kill after the deadline, again and again."""
        if self.directory.stopped_at_s is None:
            return None
        left_s = self._kill_at_s - time.monotonic()
        if left_s <= 0:
            await self._signal(signal.SIGKILL)
            return _AGAIN_S
        if not self._is_signalled:
            self._is_signalled = True
            await self._signal(signal.SIGTERM)
        return None if left_s == float("inf") else left_s

    async def _signal(self, number: signal.Signals) -> None:
        with suppress(NotFound, Conflict, Refused):  # it has just ended: the next look will tell
            await self._dock.insist(lambda: self._dock.api.kill(self.name, number))

    # -- the end -------------------------------------------------------------------------------------------

    async def _learn_end(self, view: ContainerView) -> EndLine:
        if self.status.state is not RankState.RUNNING:
            self._enter(replace(self.status, state=RankState.RUNNING, started_at_s=view.started_at_s))
        words = b""
        if view.code in _LAUNCH_CODES:
            with suppress(NotFound):
                words = await self._dock.insist(lambda: self._dock.api.words(self.name))
        if number := parse_failure(words):
            return EndLine(view.code, None, view.ended_at_s, failed=("exec", number))
        end = end_of(view, words, self.directory.stopped_at_s, self._dock.outage, is_rebooted=self._rebooted)
        began_at_s = None if words else view.started_at_s
        return EndLine(end.code, began_at_s, end.at_s, end.stopped, cause=end.cause, message=end.message)

    def _lost(self) -> EndLine:
        """The container is gone, and with it how it ended."""
        began_at_s, stopped = self.directory.began_at_s(), self.directory.stopped_at_s is not None
        if self._rebooted:
            return EndLine(None, began_at_s, time.time(), lost=ExitCause.NODE_LOST)
        message = "its container was removed by somebody else"
        return EndLine(None, began_at_s, time.time(), stopped, cause=ExitCause.UNKNOWN, message=message)

    @property
    def _rebooted(self) -> bool:
        record = self.directory.record()
        return record is not None and record.plan.boot != boot_id()

    async def _conclude(self, end: EndLine) -> None:
        """Write the end down behind all output, then leave nothing behind."""
        self._end = end
        if self.directory.has_begun:
            self._keep()
            self._tell_end()
            assert self._keeping
            await self._keeping
        while not (record := self.directory.record()) or not record.end:
            if not self.directory.write_end(end):
                await asyncio.sleep(_NO_ROOM_S)
        await self._leave(rank_end(record.plan, record.end), record.end.started_at_s)

    async def _leave(self, end: RankEnd, started_at_s: float | None = None) -> None:
        """Remove the container, and the network behind the last of its gang, before it counts as over."""
        dock, gang = self._dock, self.status.key.gang
        self._is_leaving = True
        if self._container:
            await kill_leftovers(self._container)
        await dock.insist(lambda: dock.api.remove(self.name))
        if not dock.has_ranks(gang):
            await dock.insist(lambda: dock.networks.release(gang))
        self._exit(end, started_at_s)

    def _exit(self, end: RankEnd, started_at_s: float | None) -> None:
        self._enter(replace(self.status, state=RankState.EXITED, started_at_s=started_at_s, end=end))
        self.link.wake()

    def _enter(self, status: RankStatus) -> None:
        if status == self.status or self.has_exited:
            return
        step(self.status.state, status.state)
        self.status = status
        self._changed(status)

    # -- the keeper ----------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """See to it that it has a keeper until the end is written."""
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._keep_to_end())

    async def _keep_to_end(self) -> None:
        while not ((record := self.directory.record()) and record.end):
            try:
                await self.link.hold()
            except OSError:
                self._respawn()
                await asyncio.sleep(_RETRY_S)
            self._attended.clear()

    def _respawn(self) -> None:
        """Spawn a keeper unless there is one, on its way to its socket or from it."""
        try:
            with self.directory.for_keeper() as fds:
                self._dock.spawner.spawn(*fds)
        except BlockingIOError:
            pass
        except OSError as error:
            self._dock.log.warning("keeper can't be started", rank=str(self.status.key), error=str(error))

    def _hear(self, message: Mapping[str, Any]) -> None:
        if "state" not in message:  # the greeting
            self._attended.set()
            self._tell_end()
            self.nudge()

    def _tell_end(self) -> None:
        """Tell the keeper, if it is there and the end is known: else it is told when it greets."""
        if self._end and self._attended.is_set():
            self.link.tell({"do": "end", "end": msgspec.to_builtins(self._end)})
