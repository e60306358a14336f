"""How two PCI devices reach each other, from their places in the kernel's device tree.

`/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:10.0/0000:3e:00.0` is a device behind a root
port and a switch (a switch is two bridges: one towards the host, one towards the device). The further
two paths run together, the closer the devices; the words are those of `nvidia-smi topo -m`.
"""

import re

from gpuyard.contracts.hardware import Level

Place = tuple[str, ...]
"""Host bridge, bridges, device."""

_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def place(path: str) -> Place | None:
    """Where a device sits; None if it is no PCI device (virtual, or on USB)."""
    parts = path.split("/")
    start = next((at for at, part in enumerate(parts) if _HOST_BRIDGE.fullmatch(part)), None)
    if start is None or len(parts) < start + 2 or not all(map(_FUNCTION.fullmatch, parts[start + 1 :])):
        return None
    return tuple(parts[start:])


def level(a: Place, b: Place, numa_a: int | None, numa_b: int | None) -> Level | None:
    """Level between two devices; None if only their NUMA nodes would tell, and one is unknown."""
    shared = _shared(a, b)
    if shared == 0:
        if numa_a is None or numa_b is None:
            return None
        return Level.SAME_NODE if numa_a == numa_b else Level.SYSTEM
    if shared == 1:
        return Level.HOST_BRIDGE
    # Below the place where the paths part, at most one bridge each: both sit on the same switch.
    return Level.SINGLE_SWITCH if max(len(a), len(b)) - shared <= 2 else Level.MULTI_SWITCH


def _shared(a: Place, b: Place) -> int:
    """How many steps two paths go together."""
    return next(
        (at for at, (one, other) in enumerate(zip(a, b, strict=False)) if one != other), min(len(a), len(b))
    )
