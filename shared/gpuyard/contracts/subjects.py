"""Every subject, stream and bucket: payload, one writer, purpose. Nothing else names a subject."""

from dataclasses import dataclass
from typing import Any, Literal

from gpuyard.contracts.errors import Failure
from gpuyard.contracts.fact import Beat, ExecutorInfo, GangFact
from gpuyard.contracts.figures import Figures
from gpuyard.contracts.hardware import Inventory, NodeSample
from gpuyard.contracts.history import History, HistoryQuery
from gpuyard.contracts.job import Job
from gpuyard.contracts.lease import Leader, Term
from gpuyard.contracts.log import PARTITIONS, LogBatch, LogPage, LogQuery
from gpuyard.contracts.node_event import NodeEvent
from gpuyard.contracts.order import Order
from gpuyard.contracts.rejected import Rejected
from gpuyard.contracts.request import Reply, Request
from gpuyard.contracts.segment import (
    Dropped,
    LoggerBeat,
    Pin,
    Pinned,
    PinRequest,
    Segment,
    SegmentBytes,
    SegmentRead,
    SegmentReleased,
)
from gpuyard.contracts.series import SeriesPage, SeriesQuery

MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True)
class Stream:
    """A JetStream stream. `work`: a message leaves when it is acknowledged; `log`: it stays until trimmed."""

    name: str
    subjects: tuple[str, ...]
    purpose: str
    kind: Literal["work", "log"] = "log"
    per_subject: int | None = None
    """How many messages of one subject are kept, newest first."""
    max_bytes: int = GIB
    when_full: Literal["refuse", "drop_oldest"] = "refuse"
    max_age_s: float | None = None


@dataclass(frozen=True)
class Channel:
    """A family of subjects. `{name}` stands for one id."""

    pattern: str
    payload: Any
    writer: str
    purpose: str
    stream: Stream | None = None
    answer: Any = None

    def __call__(self, **ids: object) -> str:
        """The subject for these ids: `FACTS(node="n1", job="j1")`."""
        return self.pattern.format_map(ids)

    @property
    def all(self) -> str:
        """Wildcard over the whole family."""
        return ".".join("*" if token.startswith("{") else token for token in self.pattern.split("."))

    def some(self, **ids: object) -> str:
        """Wildcard over the ids that are not given."""
        return ".".join(
            str(ids.get(token[1:-1], "*")) if token.startswith("{") else token
            for token in self.pattern.split(".")
        )

    def ids(self, subject: str) -> dict[str, str]:
        """The ids in a subject of this family."""
        pairs = zip(self.pattern.split("."), subject.split("."), strict=True)
        return {name[1:-1]: value for name, value in pairs if name.startswith("{")}


REQUESTS_STREAM = Stream("REQUESTS", ("gpuyard.request.*",), "Requests not yet decided.", kind="work")
STATE_STREAM = Stream(
    "STATE",
    ("gpuyard.state.>",),
    "Intent: term, leader and every job's record with its history. One stream, so that each write is fenced.",
    per_subject=1000,
    max_bytes=4 * GIB,
)
NODES_STREAM = Stream(
    "NODES", ("gpuyard.inventory.*", "gpuyard.executor.*"), "What each node is.", per_subject=1
)
FACTS_STREAM = Stream("FACTS", ("gpuyard.fact.*.*",), "What really runs.", per_subject=1)
ORDERS_STREAM = Stream("ORDERS", ("gpuyard.order.*",), "Orders not yet obeyed.", kind="work")
LOGS_STREAM = Stream(
    "LOGS",
    # One by one, so that nothing piles up that no logger reads.
    tuple(f"gpuyard.log.{partition}.*.*.*" for partition in range(PARTITIONS)),
    "Write-ahead log of output; trimmed by the logger once stored.",
    max_bytes=4 * GIB,
)
SEGMENTS_STREAM = Stream(
    "SEGMENTS",
    ("gpuyard.segment.>",),
    "What output is stored where: owners of the partitions, records of segments, what is pinned and dropped.",
    per_subject=1,
    max_bytes=2 * GIB,
)
FIGURES_STREAM = Stream(
    "FIGURES",
    ("gpuyard.figures.*",),
    "Measured bandwidths that no monitor has taken in yet.",
    kind="work",
    max_bytes=64 * MIB,
)
NODE_EVENTS_STREAM = Stream(
    "NODE_EVENTS",
    ("gpuyard.node_event.*",),
    "What happened to nodes and GPUs.",
    max_bytes=256 * MIB,
    when_full="drop_oldest",
    max_age_s=90 * 86400,
)
REJECTS_STREAM = Stream(
    "REJECTS",
    ("gpuyard.rejected.*",),
    "Messages nobody could read, kept a while for inspection.",
    max_bytes=64 * MIB,
    when_full="drop_oldest",
    max_age_s=7 * 86400,
)
STREAMS = (
    REQUESTS_STREAM,
    STATE_STREAM,
    NODES_STREAM,
    FACTS_STREAM,
    ORDERS_STREAM,
    LOGS_STREAM,
    SEGMENTS_STREAM,
    FIGURES_STREAM,
    NODE_EVENTS_STREAM,
    REJECTS_STREAM,
)

UPLOADS_BUCKET = "uploads"
MAX_BUCKET_BYTES = 4 * GIB

REQUEST = Channel(
    "gpuyard.request.{kind}",
    Request,
    "clients, loggers",
    "Ask for something; the answer comes to `reply_to`. `kind` is the request's `type`.",
    REQUESTS_STREAM,
    answer=Reply,
)
TERM = Channel(
    "gpuyard.state.term", Term, "scheduler", "Who reigns, and since when: the fence.", STATE_STREAM
)
LEADER = Channel(
    "gpuyard.state.leader",
    Leader,
    "scheduler",
    "Sign of life of the leader; expires by itself.",
    STATE_STREAM,
)
JOB = Channel(
    "gpuyard.state.job.{job}",
    Job,
    "scheduler",
    "A job's record; each message is the job as it is and what led there.",
    STATE_STREAM,
)
INVENTORY = Channel(
    "gpuyard.inventory.{node}", Inventory, "monitor of that node", "What the node is.", NODES_STREAM
)
EXECUTOR = Channel(
    "gpuyard.executor.{node}", ExecutorInfo, "executor of that node", "How the node runs ranks.", NODES_STREAM
)
FACT = Channel(
    "gpuyard.fact.{node}.{job}", GangFact, "executor of that node", "What runs there of a job.", FACTS_STREAM
)
ORDER = Channel("gpuyard.order.{node}", Order, "scheduler", "What the node shall do.", ORDERS_STREAM)
LOG = Channel(
    "gpuyard.log.{partition}.{job}.{attempt}.{rank}",
    LogBatch,
    "executor of the rank",
    "A rank's output. `partition` follows from the job's id.",
    LOGS_STREAM,
)
LOG_TERM = Channel(
    "gpuyard.segment.{partition}.term", Term, "logger", "Who owns the partition: the fence.", SEGMENTS_STREAM
)
LOG_LEADER = Channel(
    "gpuyard.segment.{partition}.leader", Leader, "logger", "Sign of life of the owner.", SEGMENTS_STREAM
)
SEGMENT = Channel(
    "gpuyard.segment.{partition}.record.{segment}",
    Segment,
    "owner of the partition",
    "Output that is stored.",
    SEGMENTS_STREAM,
)
PIN = Channel(
    "gpuyard.segment.{partition}.pin.{job}", Pin, "owner of the partition", "Output to keep.", SEGMENTS_STREAM
)
DROPPED = Channel(
    "gpuyard.segment.{partition}.dropped.{job}",
    Dropped,
    "owner of the partition",
    "Output that is no longer kept.",
    SEGMENTS_STREAM,
)
PIN_REQUEST = Channel(
    "gpuyard.query.pin.{partition}",
    PinRequest,
    "clients",
    "Ask the owner of the job's partition to pin its output, or to unpin it.",
    answer=Pinned | Failure,
)
LOGGER_BEAT = Channel("gpuyard.logger.{logger}", LoggerBeat, "logger", "Sign of life, 1 Hz.")
SEGMENT_READ = Channel(
    "gpuyard.query.segment.{logger}",
    SegmentRead,
    "loggers",
    "Ask the holder of a segment for bytes of it.",
    answer=SegmentBytes | Failure,
)
SEGMENT_RELEASED = Channel(
    "gpuyard.released.{logger}",
    SegmentReleased,
    "owner of the partition",
    "A segment that this logger held lies elsewhere now.",
)
REJECTED = Channel(
    "gpuyard.rejected.{stream}", Rejected, "any service", "A message that can't be read.", REJECTS_STREAM
)
SAMPLE = Channel("gpuyard.sample.{node}", NodeSample, "monitor of that node", "How the node is doing, 1 Hz.")
BEAT = Channel("gpuyard.beat.{node}", Beat, "executor of that node", "Sign of life, 1 Hz.")
FIGURES = Channel(
    "gpuyard.figures.{node}",
    Figures,
    "clients",
    "What a probe measured; the node's monitor takes it.",
    FIGURES_STREAM,
)
NODE_EVENT = Channel(
    "gpuyard.node_event.{node}",
    NodeEvent,
    "monitor of that node",
    "What happened to the node.",
    NODE_EVENTS_STREAM,
)
HISTORY_QUERY = Channel(
    "gpuyard.query.history.{node}",
    HistoryQuery,
    "clients",
    "Ask a node's monitor for the last hour.",
    answer=History | Failure,
)
LOG_QUERY = Channel(
    "gpuyard.query.logs", LogQuery, "clients", "Ask any logger for lines.", answer=LogPage | Failure
)
LOG_OWNER_QUERY = Channel(
    "gpuyard.query.owner.{partition}",
    LogQuery,
    "loggers",
    "The same, to the owner of the job's partition.",
    answer=LogPage | Failure,
)
SERIES_QUERY = Channel(
    "gpuyard.query.series.{partition}",
    SeriesQuery,
    "clients",
    "Ask the owner of the job's partition for numbers in its output. `partition` is as for `LOG`.",
    answer=SeriesPage | Failure,
)

CHANNELS = (
    REQUEST,
    TERM,
    LEADER,
    JOB,
    INVENTORY,
    EXECUTOR,
    FACT,
    ORDER,
    LOG,
    LOG_TERM,
    LOG_LEADER,
    SEGMENT,
    PIN,
    DROPPED,
    PIN_REQUEST,
    REJECTED,
    SAMPLE,
    BEAT,
    FIGURES,
    NODE_EVENT,
    HISTORY_QUERY,
    LOGGER_BEAT,
    LOG_QUERY,
    LOG_OWNER_QUERY,
    SERIES_QUERY,
    SEGMENT_READ,
    SEGMENT_RELEASED,
)
