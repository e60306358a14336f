"""A store that forgets at the end of the process: for tests and demonstrations."""

from collections.abc import Iterator, Mapping, Sequence

from gpuyard.contracts.log import LogBatch
from gpuyard_logger.core.sequence import START, Position, advance, cut
from gpuyard_logger.store import RankId, Stored


class MemoryStore:
    """The store's contract in its simplest form."""

    def __init__(self) -> None:
        self._batches: dict[RankId, list[LogBatch]] = {}
        self._positions: dict[RankId, Position] = {}

    def append(self, batches: Sequence[LogBatch]) -> Stored:
        return sum(map(self._append, batches), Stored())

    def attempts(self, job: str) -> Sequence[int]:
        return sorted({rank_id.attempt for rank_id in self._positions if rank_id.job == job})

    def positions(self, job: str, attempt: int) -> Mapping[int, Position]:
        return {
            rank_id.rank: position
            for rank_id, position in self._positions.items()
            if (rank_id.job, rank_id.attempt) == (job, attempt)
        }

    def read(self, rank_id: RankId, from_seq: int) -> Iterator[LogBatch]:
        parts = (cut(batch, from_seq) for batch in self._batches.get(rank_id, ()))
        return (part for part in parts if part is not None)

    def close(self) -> None:
        self._batches.clear()
        self._positions.clear()

    def _append(self, batch: LogBatch) -> Stored:
        rank_id = RankId.of(batch)
        position = self._positions.get(rank_id, START)
        part, after = advance(position, batch)
        if part is not None:
            self._batches.setdefault(rank_id, []).append(part)
            self._positions[rank_id] = after
        return Stored.counted(position, part)
