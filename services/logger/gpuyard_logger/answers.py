"""Answers questions about stored lines."""

from collections.abc import Callable

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Failure, GpuyardError, Unavailable
from gpuyard.contracts.log import LogQuery
from gpuyard.contracts.subjects import LOG_QUERY
from gpuyard.runtime.service import Context
from gpuyard_logger.store_thread import StoreThread

GROUP = "loggers"


class Answers:
    """Serves LOG_QUERY. A bad question gets a failure for an answer and changes nothing."""

    def __init__(self, context: Context, store: StoreThread, through_seq: Callable[[], int]) -> None:
        self._context = context
        self._store = store
        self._through_seq = through_seq
        self._seconds = context.metrics.histogram(
            "gpuyard_logger_query_seconds", "Time to answer a question about stored lines."
        )

    async def run(self) -> None:
        """Answer one question after the other."""
        async with self._context.bus.subscribe(LOG_QUERY(), group=GROUP) as questions:
            async for question in questions:
                with self._seconds.time():
                    await self._reply(question, await self._answer(question))

    async def _answer(self, question: Message) -> bytes:
        # Read before the store is: the page holds at least what the stream had up to there.
        through_seq = self._through_seq()
        try:
            query = decode(question.payload, LogQuery)
            return encode(await self._store.page(query, through_seq))
        except GpuyardError as error:
            return encode(error.to_failure())
        except OSError as error:
            self._context.log.error("store can't be read", error=str(error))
            return encode(_unreadable(error))

    async def _reply(self, question: Message, answer: bytes) -> None:
        if not question.reply:
            return
        try:
            await self._context.bus.publish(question.reply, answer)
        except GpuyardError as error:
            self._context.log.warning("answer not sent", error=str(error))


def _unreadable(error: OSError) -> Failure:
    return Unavailable(
        f"the logger can't read its store: {error}", "Check the disk of the logger; then ask again."
    ).to_failure()
