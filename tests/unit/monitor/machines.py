"""A machine on which monitors come and go, over the stand-in for the driver."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gpuyard.bus.port import From
from gpuyard.contracts.codec import decode
from gpuyard.contracts.hardware import Gpu, Health, Inventory
from gpuyard.contracts.node_event import NodeEvent
from gpuyard.contracts.subjects import (
    NODE_EVENT,
    NODE_EVENTS_STREAM,
)
from gpuyard_monitor.answers import Answers
from gpuyard_monitor.core.watch import Watch
from gpuyard_monitor.held import HeldGpus
from gpuyard_monitor.intake import Intake
from gpuyard_monitor.machine import Machine
from gpuyard_monitor.node import Node
from tests.unit.monitor.world import Samples, World, running

SLEEPER = "print('up', flush=True); input()"


class Yard(World):
    """A machine on which monitors come and go."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.boot("boot-1")

    def boot(self, boot_id: str) -> None:
        file = self.root / "proc/sys/kernel/random/boot_id"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(boot_id)
        # Processes are those that really run here.
        for process in Path("/proc").glob("[0-9]*"):
            link = self.root / "proc" / process.name
            if not link.is_symlink():
                link.symlink_to(process)

    @asynccontextmanager
    async def monitor(self, *ignored_rules: str, inventory_every_s: float = 60.0) -> AsyncIterator[Samples]:
        """A monitor that has told all it knows."""
        held = HeldGpus(self.context, "n1")
        node = Node(
            "n1",
            Watch("n1", {}, ("Xorg",), ignored_rules),
            Machine(self.context.log, self.root),
            held,
            self.context,
            sample_every_s=1.0,
            inventory_every_s=inventory_every_s,
            on_change=lambda: None,
        )
        async with (
            self.listening("n1") as samples,
            running(held.run()),
            running(node.run()),
            running(Answers(self.context, node).run()),
            running(Intake(self.context, node).run()),
        ):
            await anext(samples)
            await self.until(lambda: not node.unheard and held.holders is not None)
            yield samples

    async def gpus(self) -> tuple[Gpu, ...]:
        return (await self.inventory("n1"))[0].gpus

    async def events(self) -> list[tuple[str, str | None]]:
        """Kinds of everything that happened, with the GPU."""
        found = []
        async with self.bus.read(NODE_EVENTS_STREAM, NODE_EVENT(node="n1"), start=From.FIRST) as reader:
            for _ in range(reader.backlog):
                event = decode((await anext(aiter(reader))).payload, NodeEvent)
                found.append((event.kind, event.gpu))
        return found

    async def passes(
        self, samples: Samples, until: Callable[[Inventory], bool], most_s: int = 10
    ) -> Inventory:
        """The inventory once it is so, within so many seconds."""
        for _ in range(most_s):
            await samples.after(1.0)
            if until(found := (await self.inventory("n1"))[0]):
                return found
        await samples.after(1.0)  # the last second's news are on the bus by then
        found = (await self.inventory("n1"))[0]
        assert until(found), [(gpu.index, gpu.health, gpu.health_reason) for gpu in found.gpus]
        return found


def is_only(index: int, health: Health) -> Callable[[Inventory], bool]:
    """Whether one GPU is so, and all others are well."""
    return lambda inventory: (
        [gpu.health for gpu in inventory.gpus] == [health if at == index else Health.OK for at in range(8)]
    )


def all_well(inventory: Inventory) -> bool:
    return {gpu.health for gpu in inventory.gpus} == {Health.OK}
