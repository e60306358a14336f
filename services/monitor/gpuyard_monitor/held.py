"""Which GPUs of a node ranks hold now, followed from the facts of its executor."""

from random import SystemRandom

from gpuyard.bus.port import From, Message, Reader
from gpuyard.contracts.codec import decode
from gpuyard.contracts.errors import GpuyardError, InvalidSpec
from gpuyard.contracts.fact import GangFact
from gpuyard.contracts.subjects import FACT, FACTS_STREAM
from gpuyard.runtime.reject import set_aside
from gpuyard.runtime.retry import backoff_s
from gpuyard.runtime.service import Context
from gpuyard_monitor.core import busy


class HeldGpus:
    """`holders` is who held what when the newest fact came; None before the facts were read.

    While the bus is away it keeps what it knows.
    """

    def __init__(self, context: Context, node: str) -> None:
        self.holders: busy.Holders | None = None
        self._context = context
        self._node = node
        self._tries = 0

    async def run(self) -> None:
        """Follow until cancelled. Trouble with the bus is retried for ever."""
        chance = SystemRandom()
        while True:
            try:
                await self._follow()
            except GpuyardError as error:
                self._tries += 1
                if self._tries == 1:
                    self._context.log.warning("facts can't be read", node=self._node, error=error.message)
            await self._context.clock.sleep(backoff_s(max(self._tries, 1), chance=chance.random()))

    async def _follow(self) -> None:
        """Read from the newest fact of each job on. Jobs that ended meanwhile have no say any more."""
        bus, mine = self._context.bus, FACT.some(node=self._node)
        held: busy.Held = {}
        await bus.ensure((FACTS_STREAM,))
        async with bus.read(FACTS_STREAM, mine, start=From.LAST_PER_SUBJECT) as reader:
            self._tries = 0
            self._show(held, reader)
            async for message in reader:
                held = await self._after(held, message)
                self._show(held, reader)

    def _show(self, held: busy.Held, reader: Reader) -> None:
        """Half a snapshot would make jobs' own processes look like strangers."""
        if not reader.backlog:
            self.holders = busy.holders(held)

    async def _after(self, held: busy.Held, message: Message) -> busy.Held:
        try:
            return busy.after(held, decode(message.payload, GangFact))
        except InvalidSpec as error:
            await set_aside(self._context, message, error)
            return held
