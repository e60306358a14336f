"""A node that exists only as a captured topology."""

from gpuyard.contracts.codec import validated
from gpuyard.contracts.hardware import Inventory
from gpuyard.topology.capture import Capture
from gpuyard_monitor.core import simulated
from gpuyard_monitor.core.look import Hardware, Look
from gpuyard_monitor.held import HeldGpus


class Simulation:
    """Moves a simulated node through time, its GPUs as busy as the ranks that hold them."""

    def __init__(self, capture: Capture, node: str, held: HeldGpus, now_s: float) -> None:
        self._state = simulated.simulate(capture, node, now_s)
        self._held = held
        found = self._state.hardware.found
        validated(Inventory(node, now_s, gpus=self._state.gpus, links=found.links if found else ()))

    async def hardware(self) -> Hardware:
        return self._state.hardware

    async def look(self, now_s: float, *, paced: bool) -> Look:
        self._state = simulated.advance(self._state, now_s, self._held.holders or {})
        return simulated.look(self._state)
