"""Where clients ask: any logger takes a question, and has the owner of the job's partition answer it."""

import asyncio
from collections.abc import Mapping

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError
from gpuyard.contracts.log import LogQuery, partition_of
from gpuyard.contracts.subjects import LOG_OWNER_QUERY, LOG_QUERY
from gpuyard.runtime.service import Context
from gpuyard_logger.answers import Answers, reply

GROUP = "loggers"
_OWNER_S = 4.0
"""Less than clients wait, so that they learn why there is no answer."""


class Desk:
    """Serves LOG_QUERY together with the other loggers' desks."""

    def __init__(self, context: Context, owned: Mapping[int, Answers]) -> None:
        self._context = context
        self._owned = owned

    async def run(self) -> None:
        async with (
            self._context.bus.subscribe(LOG_QUERY(), group=GROUP) as questions,
            asyncio.TaskGroup() as tasks,
        ):
            async for question in questions:
                tasks.create_task(reply(self._context, question, self._answer(question)))

    async def _answer(self, question: Message) -> bytes:
        try:
            partition = partition_of(decode(question.payload, LogQuery).job)
            if answers := self._owned.get(partition):
                return await answers.answer(question.payload)
            subject = LOG_OWNER_QUERY(partition=partition)
            return (await self._context.bus.request(subject, question.payload, timeout_s=_OWNER_S)).payload
        except GpuyardError as error:
            return encode(error.to_failure())
