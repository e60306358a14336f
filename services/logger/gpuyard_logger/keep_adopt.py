"""Segments that lie somewhere and that no record names there.

One was written just before a crash, or half moved; or it was dropped; or the bus lost its records, and then
the file is all there is. Lines that are stored elsewhere must not be stored twice, and dropped ones must not
come back: then the file goes.
"""

import asyncio
from collections.abc import Iterable

from gpuyard.contracts.log import partition_of
from gpuyard.contracts.segment import Row, Segment
from gpuyard.runtime.service import Context
from gpuyard_logger.blobs import Place
from gpuyard_logger.catalogue import Catalogue
from gpuyard_logger.core.frame import DamagedError
from gpuyard_logger.core.layout import TRAILER_BYTES, parse_rows, rows_bytes
from gpuyard_logger.index import Index
from gpuyard_logger.keep import Keep


class Adopter:
    """For one reign over one partition."""

    def __init__(
        self, context: Context, partition: int, catalogue: Catalogue, index: Index, keep: Keep
    ) -> None:
        self._context = context
        self._partition = partition
        self._catalogue = catalogue
        self._index = index
        self._keep = keep

    async def adopt(self, place: Place, holder: str, names: Iterable[str]) -> None:
        """Record these segments for `holder`, the largest first, or remove them.

        Raises:
            OSError: the place can't be read now.
            Deposed: the partition has another owner.

        """
        sizes = {name: await asyncio.to_thread(place.size_bytes, name) for name in names}
        for name in sorted(sizes, key=lambda name: -sizes[name]):
            try:
                rows = await asyncio.to_thread(rows_of, place, name, sizes[name])
            except DamagedError as error:
                self._context.log.error("segment can't be used", segment=name, error=str(error))
                continue
            if rows and partition_of(rows[0].job) == self._partition:
                await self._settle(place, Segment(name, self._partition, holder, sizes[name], 0.0, rows))

    async def _settle(self, place: Place, found: Segment) -> None:
        rows = tuple(row for row in found.rows if self._is_missing(row))
        if not rows:
            await asyncio.to_thread(place.remove, found.id)
            return
        dropped_bytes = sum(row.size_bytes for row in found.rows) - sum(row.size_bytes for row in rows)
        await self._catalogue.add(
            Segment(
                found.id,
                self._partition,
                found.holder,
                found.size_bytes,
                self._context.clock.now(),
                rows,
                dropped_bytes=dropped_bytes,
            )
        )

    def _is_missing(self, row: Row) -> bool:
        return self._keep.dropped(row.job) is None and not self._index.covers(row)


def rows_of(place: Place, segment: str, size_bytes: int) -> tuple[Row, ...]:
    """What a segment says of itself.

    Raises:
        DamagedError: it is cut or damaged.

    """
    trailer = place.read(segment, max(size_bytes - TRAILER_BYTES, 0), TRAILER_BYTES)
    rows = rows_bytes(trailer, size_bytes)
    return parse_rows(place.read(segment, max(size_bytes - TRAILER_BYTES - rows, 0), rows), trailer)
