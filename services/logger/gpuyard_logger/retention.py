"""Lets output go: by the rules, and when the disk is short of room; stops the intake when that is not enough.

Works on the partitions that this logger owns, so several loggers share the work. Where there is object
storage, the disk gets its room by moving segments there (`tiering.py`), and nothing is dropped for it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import chain

from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.log import PARTITIONS
from gpuyard.runtime.service import Context
from gpuyard_logger.catalogue import Deposed
from gpuyard_logger.config import MIB, KeepRule, LoggerConfig
from gpuyard_logger.core.retention import DAY_S, Disk, Marks, Output, Rule, excess_bytes, is_too_full, to_drop
from gpuyard_logger.keep_disk import Space, look, space_at
from gpuyard_logger.keep_jobs import end_of
from gpuyard_logger.partition import Partition
from gpuyard_logger.shelf import Shelf

LOOK_S = 5.0


class Keeper:
    """One per logger.

    Args:
        context: The world.
        config: Rules and marks.
        shelf: The disk.
        owned: The partitions that this logger owns now.
        space: How full the disk is.

    """

    def __init__(
        self,
        context: Context,
        config: LoggerConfig,
        shelf: Shelf,
        owned: Mapping[int, Partition],
        space: Space = space_at,
    ) -> None:
        self.is_short = False
        """The disk is short of room."""
        self._context = context
        self._config = config
        self._shelf = shelf
        self._owned = owned
        self._space = space
        self._marks = Marks(config.disk_share, config.free_share, config.free_bytes)
        self._due_s = 0.0
        self._why = ""
        self._dropped = context.metrics.counter("gpuyard_logger_dropped_jobs_total", "Jobs no longer kept.")
        self._paused = context.metrics.gauge(
            "gpuyard_logger_paused", "1 while nothing is taken in because the disk is full."
        )

    async def run(self) -> None:
        while True:
            try:
                await self._look()
            except (GpuyardError, OSError) as error:
                self._context.log.warning(
                    "rules of keeping not applied; the next time will do", why=str(error)
                )
            await self._context.clock.sleep(min(LOOK_S, self._config.keep_interval_s))

    async def _look(self) -> None:
        disk = await self._disk()
        short_bytes = excess_bytes(disk, self._marks)
        self.is_short = short_bytes > 0
        for partition in self._owned.values():
            partition.upkeep.spare_room(self.is_short)
        now_s = self._context.clock.monotonic()
        if self.is_short or now_s >= self._due_s:
            self._due_s = now_s + self._config.keep_interval_s
            disk_bytes = 0 if self._config.objects.url else short_bytes
            if self._config.keep or disk_bytes:
                await self._apply(disk_bytes)
                disk = await self._disk()
        self._gate(disk)

    async def _disk(self) -> Disk:
        held = self._shelf.keep_index.held(self._shelf.logger)
        return await asyncio.to_thread(look, self._shelf.folder.root, held, self._space)

    def _gate(self, disk: Disk) -> None:
        """Stop the intake, or let it go on."""
        why = ""
        if is_too_full(disk, self._marks):
            free_mib = disk.free_bytes // MIB
            why = f"the disk of the store has only {free_mib:,} MiB left: new output waits in the stream"
        if why and not self._why:
            self._context.log.error(why, hint="Free disk space, or add object storage.")
        self._why = why
        self._paused.set(bool(why))
        for partition in self._owned.values():
            partition.hold_back(why)

    async def _apply(self, disk_bytes: int) -> None:
        partitions = [each for each in self._owned.values() if each.upkeep.settled.is_set()]
        outputs = {
            partition: [await self._known(output) for output in await self._outputs(partition)]
            for partition in partitions
        }
        rules = [_rule(rule, len(partitions) / PARTITIONS) for rule in self._config.keep]
        everything = chain.from_iterable(outputs.values())
        chosen = to_drop(everything, rules, self._context.clock.now(), disk_bytes)
        for partition, own in outputs.items():
            if going := [output for output in own if output.job in chosen]:
                await self._drop(partition, going, chosen)

    async def _outputs(self, partition: Partition) -> Sequence[Output]:
        def read() -> Sequence[Output]:
            with closing(self._shelf.reading_keep_index()) as index:
                return index.outputs(partition.number, self._shelf.logger)

        return await asyncio.to_thread(read)

    async def _known(self, output: Output) -> Output:
        """The same, with what the scheduler says of the job."""
        if output.ended_at_s is not None:
            return output
        ended = await end_of(self._context.bus, output.job, output.last_at_s, self._context.clock.now())
        if ended is None:
            return output
        self._shelf.keep_index.end(output.job, ended)
        return output._replace(ended_at_s=ended.at_s, labels=ended.labels)

    async def _drop(
        self, partition: Partition, outputs: Sequence[Output], reasons: Mapping[str, str]
    ) -> None:
        going = {
            output.job: reasons[output.job] for output in outputs if await self._is_over(partition, output)
        }
        try:
            async with partition.upkeep.lock:
                emptied = await partition.keep.drop(going)
        except Deposed:
            return  # its next owner goes on
        self._dropped.inc(len(going))
        partition.upkeep.let_go(emptied)

    async def _is_over(self, partition: Partition, output: Output) -> bool:
        """Asked again at the last moment: what is known may be old, and new lines may have come."""
        if partition.gather.view(output.job).parts:
            return False
        now_s = self._context.clock.now()
        return await end_of(self._context.bus, output.job, output.last_at_s, now_s) is not None


def _rule(rule: KeepRule, share: float) -> Rule:
    """A rule for this logger: of the bytes, it has its share."""
    return Rule(
        rule.labels,
        None if rule.age_days is None else rule.age_days * DAY_S,
        None if rule.total_bytes is None else int(rule.total_bytes * share),
    )
