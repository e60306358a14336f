"""What happened between two inventories of a node, as events; docs/concepts/health.md lists their kinds."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpuyard.contracts.hardware import Gpu, Health, Inventory
from gpuyard.contracts.node_event import NodeEvent
from gpuyard_monitor.core import xids
from gpuyard_monitor.core.readings import Xid

KINDS = {
    "gpu_lost": "a GPU fell off the bus, or is no longer listed by the driver",
    "gpu_back": "a lost GPU answers again",
    "gpu_out": "a health rule took a GPU out of service",
    "gpu_foreign": "processes that nobody scheduled use a GPU",
    "gpu_ok": "a GPU is in service again",
    "gpu_added": "a GPU is new",
    "gpu_removed": "a GPU is gone since the machine booted anew",
    "xid": "the driver reported an error, of hardware or caused by a program",
    "driver_changed": "another version of the driver was loaded, or lies beside the one that is loaded",
    "driver_lost": "no driver answers any more",
    "booted": "the machine booted anew",
    "probed": "new measured bandwidths came in",
}


@dataclass(frozen=True, slots=True)
class Change:
    """An event, and as of when the inventory was that it changed.

    A monitor that is killed after it told the event finds the same change again. It finds it in the same
    inventory, so both are known to be one.
    """

    event: NodeEvent
    before_s: float


def changes(before: Inventory, after: Inventory) -> tuple[NodeEvent, ...]:
    """Everything that differs, the node's own first, then GPU by GPU."""
    return tuple(_changes(before, after))


def xid_event(node: str, xid: Xid, at_s: float, *, is_out: bool) -> NodeEvent:
    """An error, and whether it takes the GPU out of service."""
    if xid.uuid is None:
        cause = "the driver does not say on which GPU"
    else:
        cause = f"the GPU {'goes out of' if is_out else 'stays in'} service"
    return NodeEvent(node, "xid", at_s, f"Xid {xid.number}: {xids.meaning(xid.number)}; {cause}", xid.uuid)


def _changes(before: Inventory, after: Inventory) -> Iterator[NodeEvent]:
    def event(kind: str, message: str, gpu: Gpu | None = None) -> NodeEvent:
        return NodeEvent(after.node, kind, after.at_s, message, gpu.uuid if gpu else None)

    if before.host.boot_id != after.host.boot_id:
        yield event("booted", "the machine booted anew")
    if before.host.driver != after.host.driver and before.host.driver and after.host.driver:
        yield event("driver_changed", f"driver {after.host.driver}, before it {before.host.driver}")
    if before.probed_at_s != after.probed_at_s and after.probed_at_s is not None:
        yield event("probed", "the links were measured")
    old, new = ({gpu.uuid: gpu for gpu in inventory.gpus} for inventory in (before, after))
    for uuid, gpu in old.items():
        if uuid not in new:
            yield event("gpu_removed", f"GPU {gpu.index} is gone since the machine booted anew", gpu)
    for uuid, gpu in new.items():
        if uuid not in old:
            yield event("gpu_added", f"GPU {gpu.index} is new: {gpu.model or 'unknown model'}", gpu)
        for kind, message in _of_gpu(old.get(uuid), gpu):
            yield event(kind, message, gpu)


def _of_gpu(before: Gpu | None, after: Gpu) -> Iterator[tuple[str, str]]:
    had = {fault.rule for fault in before.faults} if before else set()
    has = {fault.rule: fault.reason for fault in after.faults}
    if "lost" in had - has.keys():
        yield "gpu_back", f"GPU {after.index} answers again"
    for rule, reason in has.items():
        if rule not in had:
            yield ("gpu_lost" if rule == "lost" else "gpu_out"), f"GPU {after.index}: {reason}"
    if before is not None and before.health is after.health:
        return
    if after.health is Health.FOREIGN:
        yield "gpu_foreign", f"GPU {after.index}: {after.health_reason}"
    if after.health is Health.OK and before is not None:
        yield "gpu_ok", f"GPU {after.index} is in service again"
