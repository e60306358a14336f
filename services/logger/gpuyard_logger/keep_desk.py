"""Where clients pin output, and unpin it."""

from gpuyard.bus.port import Message
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.log import partition_of
from gpuyard.contracts.segment import Pinned, PinRequest
from gpuyard.contracts.subjects import PIN_REQUEST
from gpuyard.runtime.service import Context
from gpuyard_logger.answers import reply
from gpuyard_logger.partition import Partition


class KeepDesk:
    """Serves PIN_REQUEST of one partition, one request after the other."""

    def __init__(self, context: Context, partition: Partition) -> None:
        self._context = context
        self._partition = partition

    async def run(self) -> None:
        await self._partition.upkeep.settled.wait()
        subject = PIN_REQUEST(partition=self._partition.number)
        async with self._context.bus.subscribe(subject) as requests:
            async for request in requests:
                await reply(self._context, request, self._answer(request))

    async def _answer(self, message: Message) -> bytes:
        try:
            request = decode(message.payload, PinRequest)
            if partition_of(request.job) != self._partition.number:
                raise InvalidSpec(f"{request.job} is not in partition {self._partition.number}")
            await self._partition.keep.pin(request)
        except GpuyardError as error:
            return encode(error.to_failure())
        return encode(Pinned(request.job, request.pinned))
