"""Segments that lie with another logger: lending ours, fetching theirs."""

import asyncio

from gpuyard.bus.port import Bus, Message
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure, GpuyardError, NotFound, Unavailable, error_from
from gpuyard.contracts.segment import SegmentBytes, SegmentRead
from gpuyard.contracts.subjects import SEGMENT_READ
from gpuyard.runtime.service import Context
from gpuyard_logger.shelf import Shelf

MOST_BYTES = 768 * 1024
_ANSWER_S = 2.5
"""Less than the one who asks waits, so that it learns who did not answer."""


class Lender:
    """Answers other loggers that ask for bytes of a segment."""

    def __init__(self, context: Context, shelf: Shelf) -> None:
        self._context = context
        self._shelf = shelf

    async def run(self) -> None:
        async with self._context.bus.subscribe(SEGMENT_READ(logger=self._shelf.logger)) as questions:
            async for question in questions:
                answer = await asyncio.to_thread(self._answer, question)
                try:
                    await self._context.bus.publish(question.reply, encode(answer))
                except GpuyardError as error:
                    self._context.log.warning("segment not lent", error=str(error))

    def _answer(self, question: Message) -> SegmentBytes | Failure:
        try:
            asked = decode(question.payload, SegmentRead)
            return SegmentBytes(self._shelf.folder.read(asked.segment, asked.offset, asked.size_bytes))
        except FileNotFoundError:
            return NotFound("that segment is not here").to_failure()
        except OSError as error:
            return Unavailable(f"the segment can't be read: {error}").to_failure()
        except GpuyardError as error:
            return error.to_failure()


async def fetch(bus: Bus, logger: str, segment: str, offset: int, size_bytes: int) -> bytes:
    """Bytes of a segment that another logger holds.

    Raises:
        FileNotFoundError: it has it no more.
        OSError: it does not answer, or can't read it.

    """
    pieces = []
    while size_bytes > 0:
        piece = await _piece(bus, logger, SegmentRead(segment, offset, min(size_bytes, MOST_BYTES)))
        pieces.append(piece)
        if not piece:
            break
        offset, size_bytes = offset + len(piece), size_bytes - len(piece)
    return b"".join(pieces)


async def _piece(bus: Bus, logger: str, question: SegmentRead) -> bytes:
    try:
        message = await bus.request(SEGMENT_READ(logger=logger), encode(question), timeout_s=_ANSWER_S)
        answer = decode(message.payload, SegmentBytes | Failure)
        if isinstance(answer, Failure):
            raise error_from(answer)
    except NotFound as error:
        raise FileNotFoundError(f"{question.segment} at {logger}") from error
    except GpuyardError as error:
        raise OSError(f"logger {logger} holds these lines, but: {error.message}") from error
    return answer.data
