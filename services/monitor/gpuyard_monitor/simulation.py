"""A node that exists only as a captured topology."""

from msgspec.structs import replace

from gpuyard.contracts.codec import validated
from gpuyard.contracts.hardware import Inventory, NodeSample
from gpuyard.topology.capture import Capture
from gpuyard_monitor.core import simulated
from gpuyard_monitor.held import HeldGpus


class Simulation:
    """Moves a simulated node through time, its GPUs as busy as the ranks that hold them."""

    def __init__(self, capture: Capture, node: str, held: HeldGpus, now_s: float) -> None:
        self._state = simulated.simulate(capture, node, now_s)
        self._held = held
        validated(self._state.inventory)

    async def inventory(self, now_s: float) -> Inventory:
        return replace(self._state.inventory, at_s=now_s)

    async def sample(self, now_s: float, seq: int) -> NodeSample:
        self._state = simulated.advance(self._state, now_s, self._held.busy)
        return simulated.sample(self._state, seq)
