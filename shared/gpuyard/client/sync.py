"""The blocking twin of `AsyncClient`, for scripts and notebooks: same calls, same types.

One background thread runs the event loop and the connection. Calls may come from any thread.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Collection, Coroutine, Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from gpuyard.bus.port import Bus
from gpuyard.client import export
from gpuyard.client.aio import AsyncClient, JobRef, Jobs, Pins
from gpuyard.client.export import Exported, Format, Progress
from gpuyard.client.node_calls import Inventories, Nodes
from gpuyard.client.node_events import RecordedNodeEvent
from gpuyard.client.nodes import SAMPLE_WAIT_S
from gpuyard.client.output import Notice, say_nothing
from gpuyard.client.progress import JobProgress
from gpuyard.client.records import Event
from gpuyard.client.search import LIMIT, Found
from gpuyard.client.series import Point
from gpuyard.contracts.figures import Figures
from gpuyard.contracts.history import History
from gpuyard.contracts.job import Job, JobSpec
from gpuyard.contracts.log import LogLine

T = TypeVar("T")


class Client:
    """A connection to a yard, to be used as a context manager. For arguments see `AsyncClient`."""

    def __init__(
        self,
        url: str | None = None,
        dir: Path | str | None = None,  # noqa: A002 - the word of the command line
        *,
        timeout_s: float = 10.0,
        bus: Bus | None = None,
    ) -> None:
        self._client = AsyncClient(url, dir, timeout_s=timeout_s, bus=bus)
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._start()
        try:
            self._run(self._client.__aenter__())
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run(self._leave(kind, error, trace))
        finally:
            self._stop()

    @property
    def connected(self) -> bool:
        """Whether the message bus answered lately."""
        return self._client.connected

    def submit(
        self, spec: JobSpec, *, workdir: Path | str | None = None, request_id: str | None = None
    ) -> Job:
        """Run a job. When this returns, the job is accepted and on disk."""
        return self._run(self._client.submit(spec, workdir=workdir, request_id=request_id))

    def get(self, ref: JobRef) -> Job:
        """The job as it is now."""
        return self._run(self._client.get(ref))

    def list(self, *, active_only: bool = False, limit: int | None = None) -> Jobs:
        """All jobs, newest first."""
        return self._run(self._client.list(active_only=active_only, limit=limit))

    def watch(self, ref: JobRef) -> Generator[Job, None, None]:
        """The job as it is now and after each change, until it has ended."""
        return self._iterate(self._client.watch(ref))

    def wait(self, ref: JobRef, timeout_s: float | None = None) -> Job:
        """The job once it has ended."""
        return self._run(self._client.wait(ref, timeout_s))

    def cancel(self, ref: JobRef, *, wait: bool = False) -> Job:
        """Stop a job for good. Cancelling a cancelled job succeeds."""
        return self._run(self._client.cancel(ref, wait=wait))

    def logs(
        self,
        ref: JobRef,
        *,
        follow: bool = False,
        attempt: int | None = None,
        ranks: Collection[int] | None = None,
        tail: int | None = None,
        stream: int | None = None,
        since_s: float | None = None,
        until_s: float | None = None,
        grep: str = "",
        ignore_case: bool = False,
        context: int = 0,
        notice: Notice = say_nothing,
    ) -> Generator[LogLine, None, None]:
        """What a job prints, in the order of each rank. `notice` is called in the client's own thread."""
        lines = self._client.logs(
            ref,
            follow=follow,
            attempt=attempt,
            ranks=ranks,
            tail=tail,
            stream=stream,
            since_s=since_s,
            until_s=until_s,
            grep=grep,
            ignore_case=ignore_case,
            context=context,
            notice=notice,
        )
        return self._iterate(lines)

    def search_logs(
        self,
        pattern: str,
        *,
        jobs: Collection[JobRef] | None = None,
        labels: Mapping[str, str] | None = None,
        ranks: Collection[int] | None = None,
        stream: int | None = None,
        since_s: float | None = None,
        until_s: float | None = None,
        ignore_case: bool = False,
        limit: int = LIMIT,
        cursor: str = "",
    ) -> Found:
        """Lines that hold a regular expression, in all jobs: newest job and attempt first."""
        found = self._client.search_logs(
            pattern,
            jobs=jobs,
            labels=labels,
            ranks=ranks,
            stream=stream,
            since_s=since_s,
            until_s=until_s,
            ignore_case=ignore_case,
            limit=limit,
            cursor=cursor,
        )
        return self._run(found)

    def export_logs(
        self,
        ref: JobRef,
        path: Path | str,
        format: Format = "plain",  # noqa: A002 - the word of the command line
        *,
        progress: Progress = export.say_nothing,
        notice: Notice = say_nothing,
    ) -> Exported:
        """Write all that a job has printed to a file. `progress` is called in the client's own thread."""
        return self._run(self._client.export_logs(ref, path, format, progress=progress, notice=notice))

    def pin_logs(self, ref: JobRef) -> None:
        """Keep a job's output, whatever its age."""
        self._run(self._client.pin_logs(ref))

    def unpin_logs(self, ref: JobRef) -> None:
        """Let the loggers' rules decide again how long a job's output is kept."""
        self._run(self._client.unpin_logs(ref))

    def pinned_logs(self) -> Pins:
        """Whose output is pinned, since when and by whom."""
        return self._run(self._client.pinned_logs())

    def events(
        self, ref: JobRef | None = None, *, after: int = 0, follow: bool = False
    ) -> Generator[Event, None, None]:
        """What happened, in order: to one job, or to all."""
        return self._iterate(self._client.events(ref, after=after, follow=follow))

    def points(
        self, ref: JobRef, *, attempt: int | None = None, ranks: Collection[int] | None = None
    ) -> Generator[Point, None, None]:
        """The numbers that were found in a job's output, rank after rank, each in its order."""
        return self._iterate(self._client.points(ref, attempt=attempt, ranks=ranks))

    def progress(self, ref: JobRef) -> JobProgress | None:
        """How far a job is, by what it prints; None if it does not say, or no logger answers."""
        return self._run(self._client.progress(ref))

    def nodes(self, *, sample_wait_s: float = SAMPLE_WAIT_S) -> Nodes:
        """Every known node with its GPUs, links, measurements and holders."""
        return self._run(self._client.nodes(sample_wait_s=sample_wait_s))

    def inventories(self) -> Inventories:
        """What every known node is, sorted by name: its GPUs, links, network cards and labels."""
        return self._run(self._client.inventories())

    def watch_nodes(self, *, every_s: float = 1.0) -> Generator[Nodes, None, None]:
        """Every known node with its GPUs, again and again. A node that is not heard turns silent."""
        return self._iterate(self._client.watch_nodes(every_s=every_s))

    def history(self, node: str, *, last_s: float = 600.0, step_s: float = 10.0) -> History:
        """What a node's monitor remembers of its GPUs."""
        return self._run(self._client.history(node, last_s=last_s, step_s=step_s))

    def node_events(
        self, node: str | None = None, *, after: int = 0, follow: bool = False
    ) -> Generator[RecordedNodeEvent, None, None]:
        """What happened to one node or to all, in order."""
        return self._iterate(self._client.node_events(node, after=after, follow=follow))

    def store_figures(self, figures: Figures, *, timeout_s: float = 30.0) -> None:
        """Hand measured bandwidths to the node's monitor; returns when its inventory carries them."""
        self._run(self._client.store_figures(figures, timeout_s=timeout_s))

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            call.close()
            raise RuntimeError("a client works inside its `with` block only")
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C here must end the call there
            future.cancel()
            raise

    def _iterate(self, stream: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        turn = asyncio.Lock()
        try:
            while True:
                try:
                    yield self._run(_following(stream, turn))
                except StopAsyncIteration:
                    return
        finally:
            if self._loop is not None:
                self._run(_close(stream, turn))

    async def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close iterators that were left early before the connection they read from."""
        await asyncio.get_running_loop().shutdown_asyncgens()
        await self._client.__aexit__(kind, error, trace)

    def _start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gpuyard-client", daemon=True)
        self._thread.start()

    def _stop(self) -> None:
        loop, self._loop = self._loop, None
        assert loop, "stopped twice"
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()


async def _following(stream: AsyncGenerator[T, None], turn: asyncio.Lock) -> T:
    async with turn:
        return await anext(stream)


async def _close(stream: AsyncGenerator[T, None], turn: asyncio.Lock) -> None:
    async with turn:  # after Ctrl-C the last step is cancelled, but may still be on its way out
        await stream.aclose()
