"""The inventory as the hardware and the inventory before it tell it, with nobody's health in it yet."""

from collections.abc import Mapping

from msgspec.structs import replace

from gpuyard.contracts.hardware import Gpu, Health, Inventory
from gpuyard_monitor.core.figures import advice, handed_on
from gpuyard_monitor.core.look import Hardware
from gpuyard_monitor.core.readings import Found
from gpuyard_monitor.core.roster import joined


def described(
    hardware: Hardware, before: Inventory | None, *, node: str, labels: Mapping[str, str], at_s: float
) -> Inventory:
    """What the node is. GPUs of the same boot stay, measured bandwidths do as long as they can be true."""
    same_boot = before if before and before.host.boot_id == hardware.host.boot_id else None
    found = joined(same_boot, hardware.found) if same_boot else hardware.found or Found()
    driver = hardware.host.driver or (same_boot.host.driver if same_boot else "")
    inventory = Inventory(
        node,
        at_s,
        replace(hardware.host, driver=driver),
        tuple(map(_bare, found.gpus)),
        found.links,
        found.nics,
        simulated=hardware.simulated,
        advice=_advice(hardware.found, len(found.gpus)),
        source=hardware.source,
        labels=dict(labels),
    )
    measured = handed_on(before, inventory) if before else inventory
    return replace(measured, advice=" ".join(filter(None, (measured.advice, advice(measured)))))


def is_same_run(a: Inventory, b: Inventory) -> bool:
    """Whether neither the machine nor its driver was started anew between the two."""
    return a.host.boot_id == b.host.boot_id and a.host.driver == b.host.driver


def _bare(gpu: Gpu) -> Gpu:
    return replace(gpu, health=Health.OK, health_reason="", faults=())


def _advice(found: Found | None, known: int) -> str:
    """What the operator must do about GPUs that can't even be named."""
    missing = found.count - known if found else 0
    if missing <= 0:
        return ""
    return f"{missing} of {known + missing} GPUs do not answer the driver: reset them or reboot the machine."
