"""Which loggers are alive: each says so once a second, with the partitions that it owns."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.segment import LoggerBeat
from gpuyard.contracts.subjects import LOGGER_BEAT
from gpuyard.runtime.service import Context

BEAT_S = 1.0
SILENT_S = 5.0


class Roster:
    """Beats and listens.

    Args:
        owned: The partitions that this logger owns now.

    """

    def __init__(self, context: Context, logger: str, owned: Callable[[], tuple[int, ...]]) -> None:
        self._context = context
        self._logger = logger
        self._owned = owned
        self._heard_s: dict[str, float] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat())
            tasks.create_task(self._listen())

    def alive(self) -> frozenset[str]:
        """Other loggers heard lately."""
        since_s = self._context.clock.monotonic() - SILENT_S
        return frozenset(logger for logger, at_s in self._heard_s.items() if at_s >= since_s)

    async def _beat(self) -> None:
        clock = self._context.clock
        while True:
            beat = LoggerBeat(self._logger, clock.now(), self._owned())
            with suppress(GpuyardError):  # nobody hears anything while the bus is away
                await self._context.bus.publish(LOGGER_BEAT(logger=self._logger), encode(beat))
            await clock.sleep(BEAT_S)

    async def _listen(self) -> None:
        async with self._context.bus.subscribe(LOGGER_BEAT.all) as beats:
            async for message in beats:
                try:
                    beat = decode(message.payload, LoggerBeat)
                except InvalidSpec:
                    continue  # not ours to judge; the next one comes soon
                if beat.logger != self._logger:
                    self._heard_s[beat.logger] = self._context.clock.monotonic()
