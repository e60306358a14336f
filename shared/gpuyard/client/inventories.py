"""What each node is, as its monitor told last."""

from gpuyard.bus.port import Bus, From
from gpuyard.contracts.codec import decode
from gpuyard.contracts.hardware import Inventory
from gpuyard.contracts.subjects import INVENTORY, NODES_STREAM


async def read(bus: Bus) -> list[Inventory]:
    """The newest inventory of every node, sorted by name."""
    found: dict[str, Inventory] = {}
    async with bus.read(NODES_STREAM, INVENTORY.all, start=From.LAST_PER_SUBJECT) as reader:
        while reader.backlog:
            inventory = decode((await anext(reader)).payload, Inventory)
            found[inventory.node] = inventory
    return [found[node] for node in sorted(found)]
