"""The client: submit jobs, watch them, read their output. `Client` in `sync.py` is its blocking twin.

It asks nobody for state: jobs, nodes and history are read from where they are stored, so that looking works
while every service is away. Only requests need a scheduler.
"""

import asyncio
import getpass
import secrets
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs

from gpuyard.bus.port import Bus
from gpuyard.client import asking, export, locate, metrics, output, pins, records, search
from gpuyard.client.export import Exported, Format, Progress
from gpuyard.client.node_calls import NodeCalls
from gpuyard.client.output import Notice, Wanted, say_nothing
from gpuyard.client.progress import JobProgress
from gpuyard.client.records import Event
from gpuyard.client.search import Found, Question
from gpuyard.client.series import Point
from gpuyard.client.workdir import upload
from gpuyard.contracts.codec import validated
from gpuyard.contracts.errors import NotFound
from gpuyard.contracts.job import Job, JobSpec
from gpuyard.contracts.log import LogLine
from gpuyard.contracts.request import Cancel, Submit
from gpuyard.contracts.segment import Pin
from gpuyard.linefilter import Filter
from gpuyard.telemetry import traces

JobRef = Job | str
"""A job, its id, a unique beginning of the id, or its name."""

Jobs = list[Job]  # `list` is a method inside the class
Pins = list[Pin]


class AsyncClient(NodeCalls):
    """A connection to a yard, to be used as an async context manager.

    Args:
        url: The server; by default that of `dir`.
        dir: The yard's directory; by default GPUYARD_DIR, .gpuyard here or above, or as configured.
        timeout_s: How long a request waits for the scheduler's decision.
        bus: A bus that is connected already; it stays open.

    """

    def __init__(
        self,
        url: str | None = None,
        dir: Path | str | None = None,  # noqa: A002 - the word of the command line
        *,
        timeout_s: float = 10.0,
        bus: Bus | None = None,
    ) -> None:
        self._url = url
        self._dir = dir
        self._timeout_s = timeout_s
        self._given = bus
        self._connected: Bus | None = None
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self._given is not None:
            self._connected = self._given
            return self
        url = self._url or locate.find(self._dir and str(self._dir)).url
        from gpuyard.bus import nats_bus  # noqa: PLC0415 - a tenth of a second

        self._connected = await self._open.enter_async_context(nats_bus.connect(url, "client"))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connected = None
        await self._open.aclose()

    @property
    def connected(self) -> bool:
        """Whether the message bus answered lately."""
        return self._bus.connected

    @property
    def _bus(self) -> Bus:
        if self._connected is None:
            raise RuntimeError("a client works inside its `with` block only")
        return self._connected

    async def submit(
        self, spec: JobSpec, *, workdir: Path | str | None = None, request_id: str | None = None
    ) -> Job:
        """Run a job. When this returns, the job is accepted and on disk.

        Args:
            spec: What to run.
            workdir: A directory to ship with it; it becomes the ranks' current directory.
            request_id: Repeating a submit with the same id gives the same job.

        Raises:
            InvalidSpec: the spec or the directory can't be used.
            Refused: it can never fit.
            Unavailable: no decision in time; details hold `job` and `request_id`.

        """
        with traces.span("client.submit", job_name=spec.name):
            spec = structs.replace(validated(spec), owner=spec.owner or _user())
            if workdir is not None:
                spec = structs.replace(spec, workdir=await upload(self._bus, workdir))
            request = Submit(request_id or _new_request_id(), spec)
            accepted = await asking.ask(self._bus, validated(request), timeout_s=self._timeout_s)
            return await self.get(accepted.job)

    async def get(self, ref: JobRef) -> Job:
        """The job as it is now.

        Raises:
            NotFound: no such job.
            Conflict: a name or a beginning fits several.

        """
        return await records.find(self._bus, ref.id if isinstance(ref, Job) else ref)

    async def list(self, *, active_only: bool = False, limit: int | None = None) -> Jobs:
        """All jobs, newest first."""
        newest_first = reversed(await records.everything(self._bus))
        return [job for job in newest_first if not (active_only and job.state.is_final)][:limit]

    async def watch(self, ref: JobRef) -> AsyncGenerator[Job, None]:
        """The job as it is now and after each change, until it has ended."""
        async with aclosing(records.changes(self._bus, await self._id(ref))) as changes:
            async for job in changes:
                yield job

    async def wait(self, ref: JobRef, timeout_s: float | None = None) -> Job:
        """The job once it has ended.

        Raises:
            TimeoutError: it has not ended in time.

        """
        job = await self.get(ref)
        try:
            async with asyncio.timeout(timeout_s), aclosing(self.watch(job)) as changes:
                async for now in changes:
                    job = now
        except TimeoutError:
            raise TimeoutError(f"{job.id} is still {job.state} after {timeout_s:g} s") from None
        return job

    async def cancel(self, ref: JobRef, *, wait: bool = False) -> Job:
        """Stop a job for good. Cancelling a cancelled job succeeds.

        Args:
            ref: Which job.
            wait: Return only when nothing of it runs any more.

        Raises:
            Conflict: it has ended otherwise.

        """
        job = await self._id(ref)
        await asking.ask(self._bus, Cancel(_new_request_id(), job), timeout_s=self._timeout_s)
        return await (self.wait(job) if wait else self.get(job))

    async def logs(
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
    ) -> AsyncGenerator[LogLine, None]:
        """What a job prints, in the order of each rank.

        Args:
            ref: Which job.
            follow: Stay until the job has printed everything, through all attempts to come.
            attempt: One attempt only; by default the newest.
            ranks: Some ranks only.
            tail: Only the last so many lines of each rank that pass all filters; with `grep`, matches.
            stream: 0 standard output only, 1 standard error only.
            since_s: Lines read at this time (Unix) or later.
            until_s: Lines read before this time (Unix).
            grep: Lines that hold this regular expression: Python's, less backreferences and look-around.
            ignore_case: `grep` takes small for capital letters.
            context: Lines of the same rank around a match, at most so many numbers away.
            notice: Is told what a reader should know, for example that lines were lost.

        Raises:
            NotFound: no such job, rank or attempt.
            InvalidSpec: `grep` is no regular expression.

        """
        job = await self.get(ref)
        _check_ranks(job, ranks)
        _check_attempt(job, attempt, may_come=follow and not job.state.is_final)
        read = output.live if follow else output.stored
        wanted = Wanted(
            attempt, ranks, tail, Filter(stream, since_s, until_s, grep, ignore_case, context), notice
        )
        async with aclosing(read(self._bus, job, wanted)) as lines:
            async for line in lines:
                yield line

    async def search_logs(
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
        limit: int = search.LIMIT,
        cursor: str = "",
    ) -> Found:
        """Lines that hold a regular expression, in all jobs: newest job and attempt first.

        Args are those of `logs`, and:
            jobs: These only.
            labels: Jobs that carry all of these only.
            limit: At most so many lines.
            cursor: Goes on behind an earlier answer to the same question.

        Raises:
            NotFound: no such job.
            InvalidSpec: it is no regular expression, or no cursor.

        """
        chosen = None if jobs is None else [await self._id(job) for job in jobs]
        question = Question(
            Filter(stream, since_s, until_s, pattern, ignore_case), chosen, labels or {}, ranks
        )
        return await search.search(self._bus, question, limit=limit, cursor=cursor)

    async def export_logs(
        self,
        ref: JobRef,
        path: Path | str,
        format: Format = "plain",  # noqa: A002 - the word of the command line
        *,
        progress: Progress = export.say_nothing,
        notice: Notice = say_nothing,
    ) -> Exported:
        """Write everything that a job has printed, all attempts and ranks, to one file.

        The file appears under its name when it is complete; nothing is left if it can't be.

        Args:
            ref: Which job.
            path: The file; one that exists is replaced.
            format: `plain`, `jsonl`, or `parquet`, which needs the extra `parquet`. See `export` for columns.
            progress: Is told now and then how much was written.
            notice: Is told if lines are lost.

        Raises:
            NotFound: no such job.
            Refused: the file can't be written.
            Unavailable: no logger answers.

        """
        job = await self.get(ref)
        return await export.export(self._bus, job, Path(path), format, progress=progress, notice=notice)

    async def pin_logs(self, ref: JobRef) -> None:
        """Keep a job's output, whatever its age. When this returns, that is on disk.

        Raises:
            NotFound: no such job, or its output is no longer kept.
            Unavailable: no logger answers.

        """
        job = await self._id(ref)
        await pins.put(self._bus, job, pinned=True, by=_user(), timeout_s=self._timeout_s)

    async def unpin_logs(self, ref: JobRef) -> None:
        """Let the loggers' rules decide again how long a job's output is kept."""
        job = await self._id(ref)
        await pins.put(self._bus, job, pinned=False, by=_user(), timeout_s=self._timeout_s)

    async def pinned_logs(self) -> Pins:
        """Whose output is pinned, since when and by whom."""
        return await pins.everything(self._bus)

    async def events(
        self, ref: JobRef | None = None, *, after: int = 0, follow: bool = False
    ) -> AsyncGenerator[Event, None]:
        """What happened, in order: to one job, or to all.

        Args:
            ref: Which job; None for all.
            after: Go on behind the event with this `seq`.
            follow: Stay for what is to come: of one job until it has ended, of all for ever.

        """
        job = None if ref is None else await self.get(ref)
        live = follow and not (job is not None and job.state.is_final)
        async with aclosing(
            records.history(self._bus, job.id if job else None, after=after, live=live)
        ) as happened:
            async for event in happened:
                yield event

    async def points(
        self, ref: JobRef, *, attempt: int | None = None, ranks: Collection[int] | None = None
    ) -> AsyncGenerator[Point, None]:
        """The numbers that were found in a job's output, rank after rank, each in its order.

        Args:
            ref: Which job.
            attempt: One attempt only; by default the newest.
            ranks: Some ranks only.

        Raises:
            NotFound: no such job, rank or attempt.
            Unavailable: no logger answers.

        """
        job = await self.get(ref)
        _check_ranks(job, ranks)
        _check_attempt(job, attempt, may_come=False)
        async with aclosing(metrics.points(self._bus, job.id, attempt=attempt, ranks=ranks)) as points:
            async for point in points:
                yield point

    async def progress(self, ref: JobRef) -> JobProgress | None:
        """How far a job is, by what it prints; None if it does not say, or no logger answers."""
        return await metrics.progress(self._bus, await self.get(ref))

    async def _id(self, ref: JobRef) -> str:
        return ref.id if isinstance(ref, Job) else (await self.get(ref)).id


def _new_request_id() -> str:
    return secrets.token_hex(12)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name; which error depends on the version
        return ""


def _check_ranks(job: Job, ranks: Collection[int] | None) -> None:
    beyond = sorted(rank for rank in ranks or () if not 0 <= rank < job.spec.rank_count)
    if beyond:
        last = job.spec.rank_count - 1
        hint = f"Its ranks are 0 to {last}." if last else "Its only rank is 0."
        raise NotFound(f"{job.id} has no rank {beyond[0]}", hint, job=job.id)


def _check_attempt(job: Job, attempt: int | None, *, may_come: bool) -> None:
    if attempt is not None and attempt > job.attempt and not may_come:
        hint = f"Its newest is attempt {job.attempt}." if job.attempt else "It was never placed."
        raise NotFound(f"{job.id} has no attempt {attempt}", hint, job=job.id)
