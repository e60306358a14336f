"""The stored segments of one partition: merged, rewritten, adopted, and removed when nobody needs them.

One thing at a time, under `lock`: who takes rows out of a record must not meet someone who copies them.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import closing

from msgspec.structs import replace

from gpuyard.contracts.segment import Segment
from gpuyard.runtime.service import Context
from gpuyard_logger.blobs import Objects
from gpuyard_logger.catalogue import Catalogue
from gpuyard_logger.keep import Keep
from gpuyard_logger.keep_adopt import Adopter
from gpuyard_logger.library import Blobs, Damage, Library, nothing_open
from gpuyard_logger.merger import UnreadableError, merge_once, rewrite
from gpuyard_logger.shelf import Shelf

_SPARSE_SHARE = 0.5


class Upkeep:
    """For one reign over one partition."""

    def __init__(
        self,
        context: Context,
        partition: int,
        shelf: Shelf,
        *,
        catalogue: Catalogue,
        keep: Keep,
        blobs: Blobs,
        readers_s: float,
    ) -> None:
        self.lock = asyncio.Lock()
        self.settled = asyncio.Event()
        """What is recorded is known, and what lies here agrees with it."""
        self.is_unswept = True
        """There may be objects that no record names."""
        self._sparse_share = _SPARSE_SHARE
        self._context = context
        self._partition = partition
        self._shelf = shelf
        self._catalogue = catalogue
        self._adopter = Adopter(context, partition, catalogue, shelf.index, keep)
        self._blobs = blobs
        self._readers_s = readers_s
        self._unfit: set[str] = set()
        """Segments that can't be read and so are never merged."""
        self._ripe = asyncio.Event()
        self._retired: deque[tuple[float, str]] = deque()
        """Files that are not needed any more, and since when: readers may still be in them."""

    async def run(self) -> None:
        """Merge and rewrite whenever there may be something to do.

        Raises:
            Deposed: another logger owns the partition.

        """
        while True:
            await self._ripe.wait()
            self._ripe.clear()
            try:
                while await self._step():
                    pass
            except OSError as error:
                self._context.log.warning("segments not merged; the next time will do", error=str(error))

    def look(self) -> None:
        """Something was sealed or dropped."""
        self._ripe.set()

    def spare_room(self, is_short: bool) -> None:
        """While the disk is short of room, write segments anew for the least that was dropped of them."""
        share = 0.0 if is_short else _SPARSE_SHARE
        if share != self._sparse_share:
            self._sparse_share = share
            self.look()

    def let_go(self, segments: Iterable[str]) -> None:
        """Jobs were dropped; of these segments nothing is left."""
        for segment in segments:
            self.retire(segment)
        self.is_unswept = True
        self.look()

    def retire(self, segment: str) -> None:
        """A file of this disk is not needed any more."""
        self._retired.append((self._context.clock.monotonic(), segment))

    def remove_retired(self) -> None:
        until_s = self._context.clock.monotonic() - self._readers_s
        while self._retired and self._retired[0][0] <= until_s:
            self._shelf.folder.remove(self._retired.popleft()[1])

    async def settle(self) -> None:
        """Make records and disk agree: adopt files that no record names, remove what moved."""
        folder, me = self._shelf.folder, self._shelf.logger
        names = folder.names()
        marks = self._shelf.index.marks(self._partition)
        for name in names & marks.keys():
            if not marks[name].holder:
                folder.remove(name)
            elif marks[name].holder != me:
                await self._take_over(name)
        await self._adopter.adopt(folder, me, names - self._shelf.index.held_by(me) - marks.keys())
        self.settled.set()

    async def _take_over(self, segment: str) -> None:
        """Its file was brought here from another logger's disk, or this logger has lost its name."""
        record = await self._catalogue.record(segment)
        if record is not None:
            await self._catalogue.add(replace(record, holder=self._shelf.logger))

    async def sweep(self, objects: Objects) -> None:
        """The same for object storage: what was half moved, or dropped, is still there."""
        names = await asyncio.to_thread(objects.names)
        async with self.lock:
            marks = self._shelf.index.marks(self._partition)
            for name in names & marks.keys():
                if marks[name].holder:
                    await asyncio.to_thread(objects.remove, name)
            await self._adopter.adopt(objects, "", names - marks.keys())
            self.is_unswept = False

    async def rewrite(self, segment: str) -> None:
        """Write a segment anew, without what was dropped of it. `lock` must be held.

        Raises:
            OSError: it stays as it is.
            Deposed: another logger owns the partition.

        """
        await self._replace(await asyncio.to_thread(self._rewritten, segment))

    async def _step(self) -> bool:
        async with self.lock:
            sparse = self._shelf.keep_index.sparse(self._partition, self._shelf.logger, self._sparse_share)
            if sparse is not None and sparse not in self._unfit:
                await self._rewrite_fit(sparse)
                return True
            merged = await asyncio.to_thread(self._merged)
            if merged is not None:
                await self._replace(merged)
            return merged is not None

    async def _rewrite_fit(self, segment: str) -> None:
        try:
            await self.rewrite(segment)
        except UnreadableError as error:
            self._unfit.add(segment)
            self._context.log.error("segment can't be written anew", error=str(error))

    async def _replace(self, segment: Segment) -> None:
        await self._catalogue.add(segment)
        for name in segment.replaces:
            self.retire(name)

    def _merged(self) -> Segment | None:
        """In a thread."""
        with closing(self._shelf.reading_index()) as index:
            library = Library(index, self._blobs, nothing_open, self._tell_damage)
            return merge_once(self._shelf, library, self._partition, self._context.clock.now(), self._unfit)

    def _rewritten(self, segment: str) -> Segment:
        """In a thread."""
        with closing(self._shelf.reading_index()) as index:
            library = Library(index, self._blobs, nothing_open, self._tell_damage)
            return rewrite(self._shelf, library, self._partition, (segment,), self._context.clock.now())

    def _tell_damage(self, damage: Damage) -> None:
        self._context.log.error("stored lines are damaged", **damage._asdict())
