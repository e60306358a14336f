"""A yard of doubles: a scheduler that answers as it is told to, and a logger that has stored nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from msgspec import structs

from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.port import Bus
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure
from gpuyard.contracts.hardware import Gpu, Inventory, Level, Link, NodeSample
from gpuyard.contracts.history import History
from gpuyard.contracts.ids import job_id
from gpuyard.contracts.job import Exit, Job, JobEvent, JobSpec, JobState, Reason, TaskSpec
from gpuyard.contracts.log import OUT, LogBatch, LogChunk, LogPage, partition_of
from gpuyard.contracts.node_event import NodeEvent
from gpuyard.contracts.placement import PlacedLink, Placement, Slot
from gpuyard.contracts.request import Accepted, Cancel, Reply, Request, Submit
from gpuyard.contracts.series import SeriesPage, SeriesQuery
from gpuyard.contracts.subjects import (
    HISTORY_QUERY,
    INVENTORY,
    JOB,
    LOG,
    LOG_QUERY,
    NODE_EVENT,
    REQUESTS_STREAM,
    SAMPLE,
    SERIES_QUERY,
    STREAMS,
)

Script = Callable[["FakeYard", Job], Awaitable[None]]

NODE = "dgx1-1"
PLACEMENT = Placement(
    slots=(
        Slot(0, "main", NODE, 0, 0, ("GPU-a",)),
        Slot(1, "main", NODE, 1, 0, ("GPU-d",)),
    ),
    links=(PlacedLink(NODE, "GPU-a", "GPU-d", "NV2", 48.0),),
    bottleneck_gb_s=48.0,
)
INVENTORY_OF_NODE = Inventory(
    NODE,
    1.0,
    gpus=tuple(
        Gpu(f"GPU-{letter}", index, model="Tesla V100", memory_bytes=16 << 30)
        for index, letter in enumerate("abcd")
    ),
    links=(
        Link(0, 1, nvlinks=1, gb_s=24.0),
        Link(0, 2, level=Level.SYSTEM, gb_s=8.0),
        Link(0, 3, nvlinks=2, gb_s=48.0),
        Link(1, 2, nvlinks=2, gb_s=48.0),
        Link(1, 3, level=Level.SYSTEM, gb_s=8.0),
        Link(2, 3, nvlinks=1, gb_s=24.0),
    ),
    simulated=True,
)


class FakeYard:
    def __init__(self, bus: Bus | None = None) -> None:
        self.bus: Bus = bus or MemoryBus()
        self.jobs: dict[str, Job] = {}
        self.requests: list[Request] = []
        self.headers: list[dict[str, str]] = []
        self.unanswered = 0
        """So many requests, the first ones, get no answer."""
        self.refusal: Failure | None = None
        self.script: Script | None = None
        """What happens to a job once it is accepted."""
        self.samples: dict[str, NodeSample] = {}
        """What each node measures, over and over."""
        self.histories: dict[str, History | Failure] = {}
        """What each node's monitor answers."""
        self.series: dict[str, SeriesPage | Failure] = {}
        """The numbers that the logger found in each job's lines."""

    async def serve(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._answer_queries())
            tasks.create_task(self._answer_history_queries())
            tasks.create_task(self._answer_series_queries())
            tasks.create_task(self._publish_samples())
            async with self.bus.work(REQUESTS_STREAM, "scheduler") as work:
                async for delivery in work:
                    request: Request = decode(delivery.message.payload, Request)
                    self.requests.append(request)
                    self.headers.append(dict(delivery.message.headers))
                    reply = await self._decide(request)
                    await delivery.ack()
                    if self.unanswered:
                        self.unanswered -= 1
                        continue
                    await self.bus.publish(request.reply_to, encode(reply))
                    if self.script and isinstance(request, Submit):
                        tasks.create_task(self._play(self.script, reply))

    async def _play(self, script: Script, reply: Reply) -> None:
        if isinstance(reply, Accepted):
            await script(self, self.jobs[reply.job])

    async def _answer_queries(self) -> None:
        async with self.bus.subscribe(LOG_QUERY()) as queries:
            async for query in queries:
                await self.bus.publish(query.reply, encode(LogPage(attempt=0)))

    async def _answer_history_queries(self) -> None:
        async with self.bus.subscribe(HISTORY_QUERY.all) as queries:
            async for query in queries:
                node = HISTORY_QUERY.ids(query.subject)["node"]
                if node in self.histories:
                    await self.bus.publish(query.reply, encode(self.histories[node]))

    async def _answer_series_queries(self) -> None:
        async with self.bus.subscribe(SERIES_QUERY.all) as queries:
            async for query in queries:
                page = self.series.get(decode(query.payload, SeriesQuery).job, SeriesPage(attempt=0))
                await self.bus.publish(query.reply, encode(page))

    async def _publish_samples(self) -> None:
        while True:
            for sample in list(self.samples.values()):
                await self.bus.publish(SAMPLE(node=sample.node), encode(sample))
            await asyncio.sleep(0.01)

    async def _decide(self, request: Request) -> Reply:
        if self.refusal:
            return self.refusal
        if isinstance(request, Cancel):
            return await self._cancel(self.jobs[request.job])
        assert isinstance(request, Submit), "clients send nothing else"
        job = a_job(request.spec, request_id=request.request_id)
        if job.id not in self.jobs:
            await self.record(job, "queued")
        return Accepted(job.id, self.jobs[job.id].state)

    async def _cancel(self, job: Job) -> Reply:
        if job.state.is_final and job.state is not JobState.CANCELLED:
            return Failure("conflict", f"{job.id} has already {job.state}")
        if not job.state.is_final:
            job = await self.record(job, "cancelled", state=JobState.CANCELLED, ended_at_s=9.0)
        return Accepted(job.id, job.state)

    async def record(self, job: Job, *happened: str, **fields: object) -> Job:
        """Write the job's next record, with an event for each thing that happened."""
        version = self.jobs[job.id].version + 1 if job.id in self.jobs else 1
        events = tuple(JobEvent(kind, 5.0, f"it was {kind}", job.attempt) for kind in happened)
        job = structs.replace(job, version=version, events=events, **fields)
        self.jobs[job.id] = job
        await self.bus.append(JOB(job=job.id), encode(job))
        return job

    async def place(self, job: Job, placement: Placement = PLACEMENT) -> Job:
        return await self.record(
            job,
            "placed",
            state=JobState.STARTING,
            attempt=job.attempt + 1,
            placement=placement,
            placed_at_s=2.0,
        )

    async def start(self, job: Job) -> Job:
        job = await self.place(job)
        return await self.record(job, "running", state=JobState.RUNNING, started_at_s=3.0)

    async def end(self, job: Job, state: JobState = JobState.SUCCEEDED, exit_: Exit | None = None) -> Job:
        return await self.record(job, state, state=state, ended_at_s=7.0, exit=exit_ or Exit(0), reason=None)

    async def requeue(self, job: Job) -> Job:
        return await self.record(
            job,
            "requeued",
            state=JobState.QUEUED,
            placement=None,
            reason=Reason("launch_failed", "try again"),
        )

    async def print_lines(
        self, job: Job, rank: int, *lines: str, first: int = 0, stream: int = OUT, end: bool = False
    ) -> None:
        """Write lines into the log stream, as the rank's executor would."""
        data = "".join(f"{line}\n" for line in lines).encode()
        batch = LogBatch(
            job.id,
            job.attempt,
            rank,
            first,
            first + len(lines),
            (LogChunk(stream, 4.0, data),) if lines else (),
            end=end,
        )
        await self.bus.append(
            LOG(partition=partition_of(job.id), job=job.id, attempt=job.attempt, rank=rank), encode(batch)
        )

    async def add_node(self, inventory: Inventory = INVENTORY_OF_NODE, *, speaks: bool = False) -> None:
        """Let a node present itself; one that speaks measures nothing, but does so again and again."""
        await self.bus.append(INVENTORY(node=inventory.node), encode(inventory))
        if speaks:
            self.samples.setdefault(inventory.node, NodeSample(inventory.node, 1.0, 0))

    async def happen(self, event: NodeEvent) -> None:
        await self.bus.append(NODE_EVENT(node=event.node), encode(event))


@asynccontextmanager
async def fake_yard(bus: Bus | None = None) -> AsyncIterator[FakeYard]:
    yard = FakeYard(bus)
    await yard.bus.ensure(STREAMS)
    serving = asyncio.create_task(yard.serve())
    try:
        yield yard
    finally:
        serving.cancel()
        await asyncio.wait((serving,))


def a_spec(name: str = "train", *, gpus: int = 0, ranks: int | None = None, **fields: object) -> JobSpec:
    task = TaskSpec(("python", "train.py"), gpus=gpus, ranks=ranks)
    return structs.replace(JobSpec((task,), name=name), **fields)


def a_job(spec: JobSpec | None = None, *, request_id: str = "r1", at_s: float = 1.0) -> Job:
    spec = spec or a_spec()
    return Job(
        id=job_id(spec.name, request_id),
        request_id=request_id,
        spec=spec,
        state=JobState.QUEUED,
        version=1,
        submitted_at_s=at_s,
        reason=Reason("no_room", "waits for 2 free GPUs", "Wait, or add a node."),
    )
