"""One full message of every type, written by hand: what the golden bytes and the schemas are checked with."""

from msgspec import Struct

from gpuyard.contracts.errors import Failure
from gpuyard.contracts.fact import Beat, ExecutorInfo, GangFact, RankFact, RankState
from gpuyard.contracts.figures import Figures, GroupFigure, PairFigure
from gpuyard.contracts.hardware import (
    Basis,
    Fabric,
    Fault,
    Gpu,
    GpuProcess,
    GpuSample,
    Health,
    Host,
    Inventory,
    Level,
    Link,
    MigInstance,
    Nic,
    NodeSample,
)
from gpuyard.contracts.history import GpuHistory, History, HistoryQuery
from gpuyard.contracts.job import (
    Exit,
    ExitCause,
    Job,
    JobEvent,
    JobSpec,
    JobState,
    MetricRule,
    Reason,
    TaskSpec,
)
from gpuyard.contracts.lease import Leader, Term
from gpuyard.contracts.log import ERR, OUT, LogBatch, LogChunk, LogPage, LogQuery, Settling
from gpuyard.contracts.log_rule import LogAction, LogRule
from gpuyard.contracts.node_event import NodeEvent
from gpuyard.contracts.order import Prepare, Start, Stop
from gpuyard.contracts.placement import Alternative, PlacedLink, Placement, Slot
from gpuyard.contracts.rejected import Rejected
from gpuyard.contracts.request import Accepted, Cancel, Finding, Submit
from gpuyard.contracts.segment import (
    Dropped,
    LoggerBeat,
    Pin,
    Pinned,
    PinRequest,
    Row,
    Segment,
    SegmentBytes,
    SegmentRead,
    SegmentReleased,
)
from gpuyard.contracts.series import SeriesChunk, SeriesPage, SeriesQuery

NOW_S = 1_795_000_000.25
GPUS = ("GPU-0e1f7c9a-aaaa-4bbb-8ccc-000000000000", "GPU-0e1f7c9a-aaaa-4bbb-8ccc-000000000001")
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

TASK = TaskSpec(
    ("python", "train.py", "--name", "größe"),
    name="worker",
    gpus=2,
    ranks=2,
    env={"OMP_NUM_THREADS": "1"},
    secrets=("HF_TOKEN",),
)
SPEC = JobSpec(
    (TASK, TaskSpec(("tensorboard",), name="watch")),
    name="digits",
    priority=-5,
    workdir="sha256-" + "0f" * 32,
    owner="ada",
    labels={"team": "vision"},
    grace_s=30.0,
    nodes=("node-a",),
    launch_deadline_s=60.5,
    metrics=(MetricRule("reward", "reward (?P<value>[-0-9.]+)"),),
    log_rules=(
        LogRule("corrupt", "checkpoint .* is corrupt", LogAction.NO_RETRY, "A checkpoint is damaged."),
    ),
)
SLOTS = (
    Slot(0, "worker", "node-a", 0, 0, GPUS[:1]),
    Slot(1, "worker", "node-a", 1, 0, GPUS[1:]),
    Slot(2, "watch", "node-a", 2, 0),
)
ALTERNATIVE = Alternative("node-b", GPUS, "its GPUs are joined by PCIe only", 21.5, 21.5)
PLACEMENT = Placement(SLOTS, (PlacedLink("node-a", *GPUS, "NV4", 92.5),), 92.5, 92.5, (ALTERNATIVE,))
PROCESSES = (GpuProcess(4711, 2**35, "ada", "python", "digits-abc234"),)
EXIT = Exit(137, ExitCause.OOM, "rank 1 was killed: out of memory", 1, "node-a")

BATCH = LogBatch(
    "digits-abc234",
    2,
    1,
    first_seq=40,
    next_seq=43,
    chunks=(LogChunk(OUT, NOW_S, b"epoch 1\nepoch 2\n"), LogChunk(ERR, NOW_S + 0.5, b"\xff not UTF-8")),
    spool_offset=4096,
    end=True,
)
ROW = Row("digits-abc234", 2, 1, 0, 40, 43, NOW_S, NOW_S + 0.5, 8, 6500, 26_000, ended=True)

EXAMPLES: tuple[Struct, ...] = (
    Submit("req-1", SPEC, "_INBOX.abc.1"),
    Cancel("req-2", "digits-abc234", "_INBOX.abc.2"),
    Finding(
        "finding-1",
        "digits-abc234",
        2,
        1,
        "cuda-oom",
        LogAction.EVENT,
        "a GPU ran out of memory",
        "torch.OutOfMemoryError: CUDA out of memory.",
        NOW_S,
        "_INBOX.abc.3",
    ),
    Accepted("digits-abc234", JobState.QUEUED),
    Failure("refused", "9 GPUs asked, 8 are there", "Ask for 8.", retryable=True, details={"gpus": "9"}),
    Term("scheduler-1", "f00d", NOW_S),
    Leader("scheduler-1", "f00d", 7, NOW_S),
    Job(
        "digits-abc234",
        "req-1",
        SPEC,
        JobState.STOPPING,
        version=6,
        submitted_at_s=NOW_S,
        attempt=2,
        term=7,
        reason=Reason("rank_failed", "rank 1 failed", "Give it more memory."),
        placement=PLACEMENT,
        stop_cause=ExitCause.USER_ERROR,
        launches_failed=1,
        rules_met=((1, "cuda-oom"), (2, "corrupt")),
        no_retry="corrupt",
        placed_at_s=NOW_S + 1,
        started_at_s=NOW_S + 2,
        ended_at_s=NOW_S + 3,
        exit=EXIT,
        events=(JobEvent("rank_exited", NOW_S + 3, "rank 1 exited with 137", 2),),
        trace=TRACE,
    ),
    Inventory(
        "node-a",
        NOW_S,
        Host("a.example", 64, 2**38, 2, "6.1.0", "595.12", "b007"),
        (
            Gpu(
                GPUS[0],
                0,
                "NVIDIA H200",
                150_754_820_096,
                0,
                "0-31",
                Health.OK,
                bus_id="00000000:3B:00.0",
                compute_capability="9.0",
                nvlinks=18,
                mig=True,
                mig_instances=(MigInstance("MIG-8c4c5a27-e508-5556-b2ea-7e549465741e", 2**34),),
                fabric=Fabric("0f1e2d3c", 3, complete=False),
                power_limit_w=700.0,
                faults=(Fault("xid", "Xid 79: fell off the bus", NOW_S - 5, energy_j=8_250.5),),
            ),
            Gpu(GPUS[1], 1, "NVIDIA H200", None, 1, "32-63", Health.OUT, "XID 79"),
        ),
        (Link(0, 1, Level.SYSTEM, 4, 92.5, p2p=True, switched=True, basis=Basis.MEASURED),),
        (Nic("mlx5_0", (Level.SINGLE_SWITCH, None)),),
        simulated=True,
        advice="restart the monitor: the driver was changed",
        allreduce_gb_s=((2, 180.25),),
        probed_at_s=NOW_S - 60,
        source="nvidia-smi topo -m",
        labels={"rack": "r1"},
    ),
    ExecutorInfo("node-a", NOW_S, "process", "10.0.0.7", "0.1.0"),
    GangFact(
        "node-a",
        "digits-abc234",
        2,
        7,
        NOW_S,
        (
            RankFact(0, RankState.RUNNING, GPUS[:1], NOW_S - 9),
            RankFact(1, RankState.EXITED, GPUS[1:], NOW_S - 9, NOW_S, EXIT),
        ),
        "10.0.0.7",
        29_500,
        released=True,
    ),
    Prepare(
        "node-a",
        "digits-abc234",
        2,
        7,
        SLOTS,
        SPEC.tasks,
        3,
        SPEC.workdir,
        start_when_ready=True,
        grace_s=30.0,
        expires_at_s=NOW_S + 60,
    ),
    Start("node-a", "digits-abc234", 2, 7, "10.0.0.7", 29_500),
    Stop("node-a", "digits-abc234", 2, 7, ExitCause.CANCELLED, 30.0),
    BATCH,
    Rejected("scheduler", "gpuyard.request.submit", "Input data was truncated", b"\x81\xa4", 2, NOW_S),
    NodeSample(
        "node-a",
        NOW_S,
        41,
        0.75,
        2**37,
        (
            GpuSample(
                GPUS[0], 0.98, 2**36, 612.5, 71.0, PROCESSES, ("power_cap",), 1e9, 2e9, 3e10, 4e10, 17, 1
            ),
        ),
    ),
    Beat("node-a", NOW_S),
    Figures(
        "node-a", NOW_S, "probe-abc234", (PairFigure(*GPUS, 92.5, sound=False),), (GroupFigure(2, 180.25),)
    ),
    NodeEvent("node-a", "xid", NOW_S, "XID 79: GPU 1 has fallen off the bus", GPUS[1]),
    HistoryQuery(60.0, 5.0),
    History(
        "node-a", NOW_S, 5.0, (GpuHistory(GPUS[0], (0.5, None), (2**30, None), (99.5, None), (41.0, None)),)
    ),
    SeriesQuery("digits-abc234", 2, (0, 1), ((1, 43),), 100, 65_536),
    SeriesPage(2, (SeriesChunk(1, 1_700_000_000.5, b"43\tepoch=1/10\tloss=0.25\n"),), ((1, 44),), False),
    LogQuery(
        "digits-abc234",
        2,
        (0, 1),
        ((1, 43),),
        100,
        65_536,
        stream=1,
        since_s=NOW_S,
        until_s=NOW_S + 60,
        grep="loss=nan",
        ignore_case=True,
        context=3,
        settling=Settling(0, 900, 7, 950),
    ),
    LogPage(
        2,
        (BATCH,),
        ((1, 43),),
        (1,),
        77,
        complete=False,
        damaged=((0, 7, 9),),
        scanned_bytes=70_000,
        settling=Settling(0, 800, 4, 820),
    ),
    Segment("0f" * 16, 5, "logger-0a1b2c", 7000, NOW_S, (ROW,), ("1e" * 16,), 400),
    Pin("digits-abc234", NOW_S, "ada"),
    PinRequest("digits-abc234", pinned=False, by="ada"),
    Pinned("digits-abc234", pinned=False),
    Dropped("digits-abc234", NOW_S, "older than 30 days"),
    LoggerBeat("logger-0a1b2c", NOW_S, (0, 5)),
    SegmentRead("0f" * 16, 8, 786_432),
    SegmentReleased("0f" * 16, 5),
    SegmentBytes(b"\x00\xff"),
)
