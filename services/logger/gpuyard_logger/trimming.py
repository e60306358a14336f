"""The stream behind the store: what is stored stays a while for followers, then goes."""

from typing import NamedTuple

from gpuyard.bus.port import Message
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.subjects import LOG, LOGS_STREAM
from gpuyard.runtime.service import Context
from gpuyard_logger.config import LoggerConfig
from gpuyard_logger.core.follow_buffer import FollowBuffer


class Mark(NamedTuple):
    """Messages that are stored together: the last of them, and how large they are."""

    subject: str
    seq: int
    size_bytes: int


class Trimmer:
    """Goes with one reading of the stream: a stream that is read anew may count anew."""

    def __init__(self, context: Context, config: LoggerConfig, partition: int) -> None:
        self._context = context
        self._pattern = LOG.some(partition=partition)
        self._buffer = FollowBuffer(config.keep_bytes, config.keep_s)
        self._taken = self._stored = Mark("", 0, 0)
        self._before_seq: int | None = None

    def take(self, message: Message) -> None:
        size_bytes = self._taken.size_bytes + len(message.payload)
        self._taken = Mark(message.subject, message.seq, size_bytes)

    def mark(self) -> Mark:
        """What was taken since the last mark."""
        taken = self._taken
        self._taken = taken._replace(size_bytes=0)
        return taken

    def stored(self, mark: Mark) -> None:
        """All messages up to the mark are stored."""
        if mark.seq:
            self._stored = mark
            self._buffer.add(mark.seq, mark.size_bytes, self._context.clock.monotonic())

    async def trim(self) -> None:
        """Remove what nobody needs any more. What can't be removed now goes the next time."""
        self._before_seq = self._buffer.trim_before(self._context.clock.monotonic()) or self._before_seq
        if self._before_seq is None:
            return
        try:
            if await self._is_stream_as_read():
                await self._context.bus.trim(LOGS_STREAM, subject=self._pattern, before_seq=self._before_seq)
                self._before_seq = None
        except GpuyardError as error:
            self._context.log.warning("stream not trimmed; the next time will do", error=str(error))

    async def _is_stream_as_read(self) -> bool:
        """Whether the stream holds what was read. One that lost data counts anew; nothing of it is stored."""
        newest = await self._context.bus.last(LOGS_STREAM, self._stored.subject)
        return newest is not None and newest.seq >= self._stored.seq
