"""A captured topology as the inventory of a node, so that all who read inventories read captures too."""

from gpuyard.contracts.hardware import Gpu, Inventory
from gpuyard.topology.capture import Capture
from gpuyard.topology.link_speed import described


def captured_inventory(capture: Capture) -> Inventory:
    """The node that a capture shows; its moment is unknown, so it is 0."""
    gpus = (
        Gpu(
            f"GPU-{index}",
            index,
            model=capture.model.name,
            memory_bytes=capture.model.memory_bytes,
            numa=affinity.numa,
            cpus=affinity.cpus,
        )
        for index, affinity in enumerate(capture.topology.gpus)
    )
    return Inventory(
        node=capture.name,
        at_s=0.0,
        gpus=tuple(gpus),
        links=described(capture.topology.links, capture.model),
        nics=capture.topology.nics,
        simulated=True,
        source=capture.source,
    )
