"""The seam to the storage engine: lines in, each held exactly once; lines out, from any number on."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from gpuyard.contracts.log import LogBatch, LogPage, LogQuery
from gpuyard_logger.core.page import assemble
from gpuyard_logger.core.sequence import Position


class RankId(NamedTuple):
    """One rank's output in one attempt: what a line number counts in."""

    job: str
    attempt: int
    rank: int

    @classmethod
    def of(cls, batch: LogBatch) -> "RankId":
        return cls(batch.job, batch.attempt, batch.rank)


class Stored(NamedTuple):
    """What an append did."""

    lines: int = 0
    data_bytes: int = 0
    repeated_batches: int = 0
    """They held nothing new."""
    missing_lines: int = 0
    """Numbers that were skipped: their writer lost them."""

    def __add__(self, other: object) -> "Stored":
        assert isinstance(other, Stored)
        return Stored(*map(sum, zip(self, other, strict=True)))

    @classmethod
    def counted(cls, position: Position, part: LogBatch | None) -> "Stored":
        """What storing this part of a batch at this position adds."""
        if part is None:
            return cls(repeated_batches=1)
        return cls(
            lines=part.next_seq - part.first_seq,
            data_bytes=sum(len(chunk.data) for chunk in part.chunks),
            missing_lines=part.first_seq - position.next_seq,
        )


class Store(Protocol):
    """Output of all ranks. Used by one thread at a time; every call may block on the disk.

    Any call may raise OSError; nothing is half-done then, and the same call may be tried again.
    """

    def append(self, batches: Sequence[LogBatch]) -> Stored:
        """Store what is new of the batches, in their order. It is on disk when this returns."""
        ...

    def attempts(self, job: str) -> Sequence[int]:
        """Attempts of a job that have output, ascending."""
        ...

    def positions(self, job: str, attempt: int) -> Mapping[int, Position]:
        """How far each rank is stored."""
        ...

    def read(self, rank_id: RankId, from_seq: int) -> Iterator[LogBatch]:
        """Stored batches from a line on, in order, without overlap; the first begins no earlier than it."""
        ...

    def close(self) -> None: ...


def read_page(store: Store, query: LogQuery, through_seq: int) -> LogPage:
    """Answer a query from the store."""
    attempts = store.attempts(query.job)
    attempt = query.attempt or (attempts[-1] if attempts else 0)
    if attempt not in attempts:
        return LogPage(attempt=0, through_seq=through_seq)

    def read(rank: int, from_seq: int) -> Iterator[LogBatch]:
        return store.read(RankId(query.job, attempt, rank), from_seq)

    return assemble(query, attempt, store.positions(query.job, attempt), read, through_seq)
