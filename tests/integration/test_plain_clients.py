"""The backends of examples/ join over NATS and MessagePack alone: stand-in services, then a real yard."""

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec import Struct

from gpuyard.bus.nats_bus import connect
from gpuyard.bus.port import Bus
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Refused, Unavailable
from gpuyard.contracts.job import Exit, ExitCause, Job, JobEvent, JobState
from gpuyard.contracts.log import ERR, OUT, LogBatch, LogChunk, LogPage, LogQuery, partition_of
from gpuyard.contracts.placement import Placement, Slot
from gpuyard.contracts.request import Accepted, Reply, Request, Submit
from gpuyard.contracts.subjects import JOB, LOG, LOG_QUERY, REQUESTS_STREAM, STREAMS
from tests.natsd import NatsServer
from tests.realyard import RealYard, real_yard

EXAMPLES = Path(__file__).parents[2] / "examples"
JOB_ID = "backend-abc234"
PATIENCE_S = 60


@dataclass
class Ended:
    """How a client ended."""

    code: int
    printed: list[bytes]
    told: str


Wait = Callable[[], Awaitable[Ended]]


@dataclass
class StandIn:
    """Scheduler, executor and logger of one job, doing what a test says."""

    bus: Bus
    requests: list[Submit] = field(default_factory=list)
    stored: dict[int, list[bytes]] = field(default_factory=dict)
    """Lines that the logger has, by rank."""
    queries: list[LogQuery] = field(default_factory=list)
    version: int = 0
    appended: int = 0

    async def answer(self, decide: Callable[[Submit], Reply]) -> None:
        """Answer the requests until one is granted."""
        async with self.bus.work(REQUESTS_STREAM, "scheduler") as work:
            async for delivery in work:
                request: Submit = decode(delivery.message.payload, Request)
                self.requests.append(request)
                reply = decide(request)
                await delivery.ack()
                await self.bus.publish(request.reply_to, encode(reply))
                if isinstance(reply, Accepted):
                    return

    async def serve_logs(self) -> None:
        async with self.bus.subscribe(LOG_QUERY.pattern, group="logger") as queries:
            async for message in queries:
                query = decode(message.payload, LogQuery)
                self.queries.append(query)
                await self.bus.publish(message.reply, encode(self.page(query)))

    def page(self, query: LogQuery) -> LogPage:
        """Two lines of one rank at most, so that readers must ask again."""
        ended = tuple(self.stored)
        for rank, lines in self.stored.items():
            first = dict(query.after).get(rank, 0)
            if first < len(lines):
                part = batch(rank, first, b"\n".join(lines[first : first + 2]) + b"\n")
                return LogPage(1, (part,), ((rank, part.next_seq),), ended, complete=False)
        return LogPage(1, (), query.after, ended)

    async def record(self, state: JobState, message: str, *, ranks: int = 2) -> None:
        self.version += 1
        slots = tuple(Slot(rank, "main", "node-a", rank, 0) for rank in range(ranks))
        failed = Exit(1, ExitCause.USER_ERROR, "rank 1 exited with 1") if state is JobState.FAILED else None
        job = Job(
            JOB_ID,
            self.requests[0].request_id,
            self.requests[0].spec,
            state,
            self.version,
            submitted_at_s=1.0,
            attempt=1,
            placement=Placement(slots),
            exit=failed,
            events=(JobEvent(state.value, 1.0, message, 1),),
        )
        await self._append(JOB(job=JOB_ID), job)

    async def output(self, *batches: LogBatch) -> None:
        for each in batches:
            await self._append(
                LOG(partition=partition_of(JOB_ID), job=JOB_ID, attempt=1, rank=each.rank), each
            )

    async def _append(self, subject: str, message: Struct) -> None:
        """Until it is known to be on disk, whatever happens to the server meanwhile."""
        self.appended += 1
        while True:
            with suppress(Unavailable):
                await self.bus.append(subject, encode(message), msg_id=f"m{self.appended}")
                return


def batch(rank: int, first_seq: int, *data: bytes, end: bool = False) -> LogBatch:
    """The first piece is standard output, a second one standard error."""
    chunks = tuple(LogChunk(stream, 1.0, piece) for stream, piece in zip((OUT, ERR), data, strict=False))
    next_seq = first_seq + sum(chunk.line_count for chunk in chunks)
    return LogBatch(JOB_ID, 1, rank, first_seq, next_seq, chunks, end=end)


def accept(_request: Submit) -> Reply:
    return Accepted(JOB_ID, JobState.QUEUED)


@pytest.fixture(scope="module")
def node_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Node.js example with its packages: those that are there, else fetched once."""
    source = EXAMPLES / "backend_node"
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed")
    if (source / "node_modules").is_dir():
        return source
    folder = tmp_path_factory.mktemp("node") / "backend"
    shutil.copytree(source, folder)
    install = ["npm", "install", "--no-audit", "--no-fund"]
    installed = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    if installed.returncode:
        pytest.skip(f"npm can't fetch the example's packages: {installed.stderr[-200:]}")
    return folder


@pytest.fixture(params=["python", "node"])
def client(request: pytest.FixtureRequest) -> list[str]:
    """The command line of an example backend."""
    if request.param == "python":
        return [sys.executable, str(EXAMPLES / "backend_python" / "backend.py")]
    return ["node", str(request.getfixturevalue("node_folder") / "backend.mjs")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as running:
        yield running


@pytest.fixture
async def stand_in(server: NatsServer) -> AsyncIterator[StandIn]:
    async with connect(server.url, "stand-in") as bus:
        await bus.ensure(STREAMS)
        stand_in = StandIn(bus)
        serving = asyncio.create_task(stand_in.serve_logs())
        yield stand_in
        serving.cancel()


@asynccontextmanager
async def running(
    client: list[str], url: str, *arguments: str
) -> AsyncIterator[Callable[[], Awaitable[Ended]]]:
    """The client as a process; call what this gives to wait for its end."""
    process = await asyncio.create_subprocess_exec(
        *client,
        *arguments,
        env=os.environ | {"GPUYARD_URL": url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )

    async def ended() -> Ended:
        async with asyncio.timeout(PATIENCE_S):
            printed, told = await process.communicate()
        assert process.returncode is not None
        return Ended(process.returncode, printed.split(b"\n"), told.decode())

    try:
        yield ended
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def of_rank(rank: int, ended: Ended) -> list[bytes]:
    prefix = b"[%d] " % rank
    return [line.removeprefix(prefix) for line in ended.printed if line.startswith(prefix)]


async def test_a_job_is_submitted_and_followed_to_its_end(
    client: list[str], server: NatsServer, stand_in: StandIn
) -> None:
    async with running(client, server.url, "--gpus", "2", "--", "python", "train.py") as ended:
        await stand_in.answer(accept)
        await stand_in.record(JobState.RUNNING, "2 ranks on node-a")
        await stand_in.output(
            batch(0, 0, b"epoch 1\nepoch 2\n"),
            batch(1, 0, b"one\n", b"to stderr\n"),
            batch(0, 1, b"epoch 2\nepoch 3\n"),  # overlaps: sent again after a failure
            batch(0, 0, b"epoch 1\n"),
            batch(1, 2, b"50%\r100%\n\nno newline", end=True),
            batch(0, 3, end=True),
        )
        await stand_in.record(JobState.SUCCEEDED, "both ranks exited with 0")
        result = await ended()

    assert result.code == 0
    assert of_rank(0, result) == [b"epoch 1", b"epoch 2", b"epoch 3"]
    assert "no end of output" not in result.told
    assert of_rank(1, result) == [b"one", b"to stderr", b"50%\r100%", b"", b"no newline"]
    told = result.told.splitlines()
    assert told[0] == f"accepted: {JOB_ID}"
    assert told.index("running: 2 ranks on node-a") < told.index("succeeded: both ranks exited with 0")
    (request,) = stand_in.requests
    assert request.spec.tasks[0].command == ("python", "train.py")
    assert request.spec.gpu_count == 2


async def test_lines_that_left_the_stream_are_asked_from_a_logger(
    client: list[str], server: NatsServer, stand_in: StandIn
) -> None:
    stand_in.stored = {0: [b"line %d" % number for number in range(7)]}
    async with running(client, server.url, "true") as ended:
        await stand_in.answer(accept)
        await stand_in.record(JobState.RUNNING, "1 rank on node-a", ranks=1)
        await stand_in.output(batch(0, 5, b"line 5\n"))
        await stand_in.record(JobState.SUCCEEDED, "rank 0 exited with 0", ranks=1)
        result = await ended()

    assert result.code == 0
    assert of_rank(0, result) == stand_in.stored[0]
    assert [query.after for query in stand_in.queries if query.after in (((0, 2),), ((0, 4),))]
    assert "no end of output" not in result.told


async def test_a_failed_job_gives_exit_code_1(
    client: list[str], server: NatsServer, stand_in: StandIn
) -> None:
    async with running(client, server.url, "false") as ended:
        await stand_in.answer(accept)
        await stand_in.output(batch(0, 0, end=True), batch(1, 0, b"boom\n", end=True))
        await stand_in.record(JobState.FAILED, "rank 1 exited with 1")
        result = await ended()

    assert result.code == 1
    assert of_rank(1, result) == [b"boom"]
    assert "ended: failed" in result.told


async def test_a_refusal_says_why(client: list[str], server: NatsServer, stand_in: StandIn) -> None:
    def refuse(_request: Submit) -> Reply:
        return Refused("9 GPUs asked, 8 are there", "Ask for 8.").to_failure()

    async with running(client, server.url, "--gpus", "9", "--", "true") as ended:
        answering = asyncio.create_task(stand_in.answer(refuse))
        result = await ended()
        answering.cancel()

    assert result.code == 1
    assert "refused (refused): 9 GPUs asked, 8 are there. Ask for 8." in result.told
    assert result.printed == [b""]


async def test_a_restart_of_the_server_loses_and_repeats_nothing(
    client: list[str], server: NatsServer, stand_in: StandIn
) -> None:
    async with running(client, server.url, "true") as ended:
        await stand_in.answer(accept)
        await stand_in.record(JobState.RUNNING, "1 rank on node-a", ranks=1)
        await stand_in.output(batch(0, 0, b"before\n"))
        server.kill()
        server.start()
        await stand_in.output(batch(0, 1, b"after\n", end=True))
        await stand_in.record(JobState.SUCCEEDED, "rank 0 exited with 0", ranks=1)
        result = await ended()

    assert result.code == 0
    assert of_rank(0, result) == [b"before", b"after"]
    assert result.told.count("running: ") == result.told.count("succeeded: ") == 1


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealYard]:
    with real_yard(tmp_path_factory.mktemp("yard"), "azure-ndv2-v100-8gpu") as running_yard:
        yield running_yard
        down = [sys.executable, "-m", "gpuyard", "down", "--dir", str(running_yard.root)]
        subprocess.run(down, check=True, timeout=PATIENCE_S)


async def test_a_real_yard_is_joined(client: list[str], yard: RealYard) -> None:
    count = "i=0; while [ $i -lt 3000 ]; do echo $RANK:$i; i=$((i+1)); done"
    async with running(client, yard.file.url, "--gpus", "2", "--", "sh", "-c", count) as ended:
        result = await ended()

    assert result.code == 0, result.told
    for rank in (0, 1):
        assert of_rank(rank, result) == [b"%d:%d" % (rank, number) for number in range(3000)]


async def test_a_real_yard_refuses_and_fails(client: list[str], yard: RealYard) -> None:
    async with running(client, yard.file.url, "--gpus", "9999", "--", "true") as ended:
        refused = await ended()
    async with running(client, yard.file.url, "--", "sh", "-c", "echo so long; exit 3") as ended:
        failed = await ended()

    assert (refused.code, refused.told.partition(" ")[0]) == (1, "refused")
    assert (failed.code, of_rank(0, failed)) == (1, [b"so long"])
