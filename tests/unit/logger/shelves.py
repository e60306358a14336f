"""A shelf with sealed lines on it, and its records on a bus in memory; no service."""

from collections.abc import Iterable
from pathlib import Path

from gpuyard.bus.memory import MemoryBus
from gpuyard.bus.port import Expect
from gpuyard.contracts.log import LogBatch, LogLine, LogQuery, partition_of
from gpuyard.contracts.segment import Row, Segment
from gpuyard_logger.answers import read_page
from gpuyard_logger.catalogue import Catalogue
from gpuyard_logger.core.gather import Gather
from gpuyard_logger.core.layout import Stream
from gpuyard_logger.core.sequence import Position
from gpuyard_logger.keep_adopt import rows_of
from gpuyard_logger.library import Damage, Library
from gpuyard_logger.merger import merge_once
from gpuyard_logger.sealing import write_round
from gpuyard_logger.shelf import Shelf
from tests.unit.logger.batches import JOB, lines
from tests.unit.logger.running import context_on

PARTITION = partition_of(JOB)


class Reign:
    """A term for ever; ended by the test."""

    def __init__(self, name: str = "term", seq: int = 0) -> None:
        self.holds = True
        self.fence = Expect(f"gpuyard.segment.{PARTITION}.{name}", seq)


class Store:
    """What a partition's owner does with its shelf, step by step."""

    def __init__(self, path: Path, bus: MemoryBus, reign: Reign | None = None) -> None:
        self.path = path
        self.reign = reign or Reign()
        self.shelf = Shelf(path)
        self.damage: list[Damage] = []
        self.context = context_on(bus)
        self.catalogue = Catalogue(self.context, PARTITION, self.reign, self.shelf)  # type: ignore[arg-type]
        self.gather = Gather(self.shelf.index.position)
        self._taken = 0

    def take(self, batches: Iterable[LogBatch]) -> None:
        for batch in batches:
            self._taken += 1
            self.gather.take(batch, self._taken, 0.0)

    def write(self) -> list[Segment]:
        """Seal what was taken, without a record."""
        segments = write_round(
            self.shelf.folder,
            self.gather.begin(),
            partition=PARTITION,
            holder=self.shelf.logger,
            at_s=float(self._taken),
        )
        self.gather.sealed()
        return segments

    async def seal(self, *batches: LogBatch) -> list[Segment]:
        self.take(batches)
        segments = self.write()
        for segment in segments:
            await self.catalogue.add(segment)
        return segments

    async def merge(self, unfit: set[str]) -> Segment | None:
        merged = merge_once(self.shelf, self.library(), PARTITION, 0.0, unfit)
        if merged is not None:
            await self.catalogue.add(merged)
        return merged

    def library(self) -> Library:
        return Library(self.shelf.index, self, self.gather.view(JOB).frames, self.damage.append)

    def read(self, segment: str, _holder: str, offset: int, size_bytes: int) -> bytes:
        return self.shelf.folder.read(segment, offset, size_bytes)

    def rows(self, segment: str) -> tuple[Row, ...]:
        """What a segment says of itself."""
        return rows_of(self.shelf.folder, segment, self.shelf.folder.size_bytes(segment))

    def file_of(self, first_seq: int) -> Path:
        """The first segment whose lines begin with this one."""
        names = sorted(self.shelf.folder.names())
        return self.shelf.folder.path(next(n for n in names if self.rows(n)[0].first_seq == first_seq))

    def lines(self, rank: int, attempt: int = 1) -> list[LogLine]:
        """What a reader gets; `damage` has what not."""
        query = LogQuery(JOB, attempt, (rank,))
        return lines(read_page(self.library(), query, self.gather.view(JOB)).batches)

    def position(self, rank: int) -> Position:
        return self.shelf.index.position(Stream(JOB, 1, rank))

    def close(self) -> None:
        self.shelf.close()
