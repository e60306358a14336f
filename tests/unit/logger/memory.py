"""The logger's store without a disk: lines are gathered and never sealed."""

from collections.abc import Iterable
from pathlib import Path

from gpuyard.contracts.log import LogBatch, LogPage, LogQuery
from gpuyard_logger.answers import read_page
from gpuyard_logger.core.gather import Gather
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.sequence import START, Position
from gpuyard_logger.index import Index
from gpuyard_logger.library import Damage, Library


class NoBlobs:
    def read(self, segment: str, holder: str, offset: int, size_bytes: int) -> bytes:
        raise FileNotFoundError(segment)


class MemoryStore:
    """Batches in, pages out."""

    def __init__(self) -> None:
        self.gather = Gather(_nothing_stored)

    def append(self, batches: Iterable[LogBatch]) -> None:
        for batch in batches:
            self.gather.take(batch, self.gather.through_seq + 1, 0.0)

    def page(self, query: LogQuery, through_seq: int) -> LogPage:
        view = self.gather.view(query.job)._replace(through_seq=through_seq)
        damage: list[Damage] = []
        index = Index(Path(":memory:"))
        index.prepare()
        page = read_page(Library(index, NoBlobs(), view.frames, damage.append), query, view)
        assert not damage
        return page


def _nothing_stored(_stream: Stream) -> Position:
    return START
