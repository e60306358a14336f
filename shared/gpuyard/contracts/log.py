"""Output of ranks: batches on their way to the store, and questions to the store.

Lines of a rank are numbered from 0 over both streams together, in the order they were read.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple
from zlib import crc32

from msgspec import Meta, Struct

from gpuyard.contracts.hardware import Seconds
from gpuyard.contracts.ids import JobId

OUT, ERR = 0, 1
PARTITIONS = 8
"""Shares of all jobs. Each has one owner among the loggers, so at most so many can share the work."""
Rank = Annotated[int, Meta(ge=0, le=65535, description="Global rank.")]
Seq = Annotated[int, Meta(ge=0, description="Number of a line in its rank.")]
# Pairs, not a map: many languages have no maps with integer keys.
Cursor = tuple[tuple[Rank, Seq], ...]


def partition_of(job: str) -> int:
    """The partition that a job's output belongs to."""
    return crc32(job.encode()) % PARTITIONS


class LogChunk(Struct, frozen=True, array_like=True):
    """Output read at one moment from one stream: whole lines, each with its newline.

    Only a last line may lack it: the rank ended without one, or the line was too long and goes on.
    """

    stream: Annotated[int, Meta(ge=0, le=1, description="0 standard output, 1 standard error.")]
    at_s: Seconds
    data: bytes

    @property
    def line_count(self) -> int:
        return self.data.count(b"\n") + (self.data[-1:] not in (b"", b"\n"))


class LogBatch(Struct, frozen=True):
    """Consecutive output of one rank. `next_seq - first_seq` is the number of lines in it."""

    job: JobId
    attempt: Annotated[int, Meta(ge=1)]
    rank: Rank
    first_seq: Seq
    next_seq: Seq
    chunks: tuple[LogChunk, ...] = ()
    spool_offset: Annotated[int, Meta(ge=0, description="The executor's position after this batch.")] = 0
    end: Annotated[bool, Meta(description="The rank's output is complete.")] = False


class LogLine(NamedTuple):
    """One line as a reader sees it; `text` without its newline."""

    job: str
    attempt: int
    rank: int
    seq: int
    stream: int
    at_s: float
    text: bytes


def lines_of(batch: LogBatch) -> Iterator[LogLine]:
    """Split a batch into numbered lines."""
    seq = batch.first_seq
    for chunk in batch.chunks:
        pieces = chunk.data.split(b"\n")
        if not pieces[-1]:
            pieces.pop()
        for text in pieces:
            yield LogLine(batch.job, batch.attempt, batch.rank, seq, chunk.stream, chunk.at_s, text)
            seq += 1


class Settling(Struct, frozen=True, array_like=True):
    """How far the search for the beginning of a rank's tail has come, backwards."""

    rank: Rank
    seq: Annotated[int, Meta(ge=0, description="Lines from this one on were looked at.")]
    lines: Annotated[int, Meta(ge=0, description="So many matches are still wanted.")]
    begin: Annotated[int, Meta(ge=0, description="The earliest match so far.")]


class LogQuery(Struct, frozen=True):
    """Give me stored lines of a job, in the order of each rank.

    A line *passes* if it is of the stream and inside the times. It *matches* if it passes and `grep` is found
    in it; without `grep` every line that passes matches. Given are the lines that match, and those that pass
    and whose number is at most `context` away from that of a matching line of the same rank.

    `grep` is a regular expression as RE2 has them: Python's, less backreferences and look-around. It is
    applied to the bytes of each line without its newline, so `^` and `$` are the ends of the line and nothing
    matches across two lines.

    `tail` counts matching lines; where every line matches it counts numbers, those of lost lines too. Finding
    where a tail begins may take several pages: give `settling` of a page back with the next query, as `next`
    is given back as `after`.
    """

    job: JobId
    attempt: Annotated[int, Meta(ge=1, description="Default: the newest stored.")] | None = None
    ranks: Annotated[tuple[Rank, ...] | None, Meta(description="Default: all.")] = None
    after: Annotated[
        Cursor, Meta(description="For each rank, the first line to look at; missing means 0.")
    ] = ()
    tail: (
        Annotated[int, Meta(ge=0, description="Only the last so many matches of each rank without a cursor.")]
        | None
    ) = None
    max_bytes: Annotated[int, Meta(ge=1, le=786432, description="Upper bound of the page.")] = 524288
    stream: Annotated[int, Meta(ge=0, le=1, description="Default: both.")] | None = None
    since_s: Annotated[float, Meta(description="Read at this time (Unix, s) or later.")] | None = None
    until_s: Annotated[float, Meta(description="Read before this time (Unix, s).")] | None = None
    grep: Annotated[str, Meta(max_length=1024, description="Empty: every line matches.")] = ""
    ignore_case: bool = False
    context: Annotated[int, Meta(ge=0, le=1000, description="Lines around a match, on each side.")] = 0
    settling: Annotated[Settling | None, Meta(description="From the page before.")] = None


class LogPage(Struct, frozen=True, tag="page", tag_field="type"):
    """Stored lines. When `complete`, everything stored was looked at; go on live after `through_seq`.

    A filtered page may be sparse or empty and yet not the last: it also ends when enough was looked at. Lines
    before `next` were looked at, and either given or found unwanted for good. With `context`, `next` may stay
    up to so many lines behind the stored end of a rank that goes on, even when `complete`: whether those are
    wanted depends on lines to come.
    """

    attempt: Annotated[int, Meta(ge=0, description="0: nothing is stored yet.")]
    batches: tuple[LogBatch, ...] = ()
    next: Annotated[Cursor, Meta(description="For each rank, the line to go on with.")] = ()
    ended: Annotated[tuple[Rank, ...], Meta(description="Ranks whose stored output is complete.")] = ()
    through_seq: Annotated[int, Meta(ge=0, description="LOGS stream is stored up to this sequence.")] = 0
    complete: bool = True
    damaged: Annotated[
        tuple[tuple[Rank, Seq, Seq], ...],
        Meta(description="Lines lost on the disk: rank, first, and the one after the last."),
    ] = ()
    scanned_bytes: Annotated[int, Meta(ge=0, description="Text looked at for this page.")] = 0
    settling: Annotated[Settling | None, Meta(description="The beginning of a tail is still looked for.")] = (
        None
    )
