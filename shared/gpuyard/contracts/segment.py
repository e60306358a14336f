"""Stored output: which lines lie in which segment, and who holds it.

A segment is an immutable file with a part for each rank that printed while it was gathered. Its record on
the bus makes the lines in it count as stored; the logger that owns the partition writes it under its term.
"""

from typing import Annotated

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Seconds
from gpuyard.contracts.ids import JobId, Name
from gpuyard.contracts.log import Rank, Seq

LINES, SERIES = 0, 1
MAX_ROWS = 4000
"""So that a record fits a message."""

Partition = Annotated[int, Meta(ge=0, le=255, description="Share of all jobs: `partition_of(job)`.")]
SegmentId = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$(?!\n)", description="Name of the segment.")]


class Row(Struct, frozen=True, array_like=True):
    """A part: consecutive output of one rank in a segment. Numbers may have gaps that their writer left."""

    job: JobId
    attempt: Annotated[int, Meta(ge=1)]
    rank: Rank
    kind: Annotated[int, Meta(ge=0, le=1, description="0 lines, 1 series of numbers found in them.")]
    first_seq: Seq
    next_seq: Seq
    first_at_s: Seconds
    last_at_s: Seconds
    offset: Annotated[int, Meta(ge=0, description="Where the part begins in the segment.")]
    size_bytes: Annotated[int, Meta(ge=0, description="Bytes of the part.")]
    raw_bytes: Annotated[int, Meta(ge=0, description="Bytes before compression.")]
    ended: Annotated[bool, Meta(description="The rank's output ends here.")] = False


class Segment(Struct, frozen=True):
    """A sealed segment. It takes the place of those that it `replaces`."""

    id: SegmentId
    partition: Partition
    holder: Annotated[
        str, Meta(max_length=63, description="Logger that has the file; empty: object storage.")
    ]
    size_bytes: Annotated[int, Meta(ge=0)]
    sealed_at_s: Seconds
    rows: Annotated[tuple[Row, ...], Meta(max_length=MAX_ROWS)] = ()
    replaces: tuple[SegmentId, ...] = ()
    dropped_bytes: Annotated[
        int, Meta(ge=0, description="Bytes of the file that were a part's, and no row's any more.")
    ] = 0


class Pin(Struct, frozen=True):
    """Output of this job is kept, whatever its age."""

    job: JobId
    at_s: Seconds
    by: Annotated[str, Meta(max_length=256, description="Who wanted that.")] = ""


class PinRequest(Struct, frozen=True):
    """Keep the output of a job whatever its age; or let the rules decide again."""

    job: JobId
    pinned: bool = True
    by: Annotated[str, Meta(max_length=256, description="Who wants that.")] = ""


class Pinned(Struct, frozen=True, tag="pinned", tag_field="type"):
    """It is done, and on disk."""

    job: JobId
    pinned: bool


class Dropped(Struct, frozen=True):
    """Output of this job was kept until then."""

    job: JobId
    at_s: Seconds
    why: Annotated[str, Meta(max_length=256, description="The rule that let it go.")] = ""


class LoggerBeat(Struct, frozen=True):
    """A logger is alive, and owns these partitions."""

    logger: Name
    at_s: Seconds
    partitions: tuple[Partition, ...] = ()


class SegmentRead(Struct, frozen=True):
    """Ask a logger for bytes of a segment that it holds."""

    segment: SegmentId
    offset: Annotated[int, Meta(ge=0)]
    size_bytes: Annotated[int, Meta(ge=1, le=786432)]


class SegmentReleased(Struct, frozen=True):
    """A segment lies elsewhere now, as its record says."""

    segment: SegmentId
    partition: Partition


class SegmentBytes(Struct, frozen=True, tag="bytes", tag_field="type"):
    """The bytes; fewer at the segment's end."""

    data: bytes
