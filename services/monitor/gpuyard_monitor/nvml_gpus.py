"""What a GPU is, as the driver describes it: everything about it that rarely changes."""

import ctypes
import uuid
from collections.abc import Iterator
from typing import Any

from gpuyard.contracts.hardware import Fabric, Gpu, MigInstance
from gpuyard.topology.matrix_text import Affinity
from gpuyard_monitor.core.cpu_list import cpu_list, members
from gpuyard_monitor.core.plain import plain
from gpuyard_monitor.nvml_driver import Device, Driver

_CPU_WORDS = 64
_NUMA_WORDS = 16
_MEMORY_V2 = 0x02000028
_FABRIC_V2 = 0x02000024
_FABRIC_NONE, _FABRIC_COMPLETE = 0, 3

MEMORY = (("nvmlDeviceGetMemoryInfo", _MEMORY_V2), ("nvmlDeviceGetMemoryInfo",))
"""Version 2 tells the driver's own share apart; drivers before 510 know version 1 only."""


class _FabricInfo(ctypes.Structure):
    """`nvmlGpuFabricInfo_v2_t` of NVML's public header."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("cluster", ctypes.c_uint8 * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint32),
        ("state", ctypes.c_uint8),
        ("health", ctypes.c_uint32),
    )


def describe(driver: Driver, device: Device, near: Affinity, nvlinks: int | None) -> Gpu:
    """Everything about one GPU but its links.

    Raises:
        LostError: it fell off the bus.

    """
    memory = driver.first(device, *MEMORY)
    mig = driver.ask(device, "nvmlDeviceGetMigMode")
    limit_mw = driver.ask(device, "nvmlDeviceGetEnforcedPowerLimit")
    return Gpu(
        uuid=device.uuid,
        index=device.index,
        model=plain(driver.ask(device, "nvmlDeviceGetName") or ""),
        memory_bytes=memory and memory.total,
        numa=_numa(driver, device) if near.numa is None else near.numa,
        cpus=near.cpus or _cpus(driver, device),
        bus_id=device.bus_id,
        compute_capability=_capability(driver.ask(device, "nvmlDeviceGetCudaComputeCapability")),
        nvlinks=nvlinks,
        mig=mig and bool(mig[0]),
        mig_instances=tuple(_mig_instances(driver, device)) if mig and mig[0] else (),
        fabric=_fabric(driver, device),
        power_limit_w=None if limit_mw is None else limit_mw / 1000,
    )


def _capability(version: tuple[int, int] | None) -> str:
    return "" if version is None else f"{version[0]}.{version[1]}"


def _cpus(driver: Driver, device: Device) -> str | None:
    """Near CPUs, where the kernel does not tell: in containers without /sys."""
    words = driver.ask(device, "nvmlDeviceGetCpuAffinity", _CPU_WORDS)
    return cpu_list(members(words)) or None if words else None


def _numa(driver: Driver, device: Device) -> int | None:
    """NUMA node, where the kernel does not tell. Several, as in virtual machines, are none."""
    words = driver.ask(device, "nvmlDeviceGetMemoryAffinity", _NUMA_WORDS, 0)
    nodes = members(words) if words else []
    return nodes[0] if len(nodes) == 1 else None


def _mig_instances(driver: Driver, device: Device) -> Iterator[MigInstance]:
    """Instances keep their numbers when others go, so there are holes."""
    for number in range(driver.ask(device, "nvmlDeviceGetMaxMigDeviceCount") or 0):
        handle = driver.ask(device, "nvmlDeviceGetMigDeviceHandleByIndex", number)
        instance: Any = handle and driver.device_of(handle, number)
        if instance:
            memory = driver.first(instance, *MEMORY)
            yield MigInstance(instance.uuid, memory and memory.total)


def _fabric(driver: Driver, device: Device) -> Fabric | None:
    """The NVLink domain. One that ends at this machine has no name: all zeros would match other machines'."""
    info = _FabricInfo(version=_FABRIC_V2)
    if driver.call("nvmlDeviceGetGpuFabricInfoV", device.handle, ctypes.byref(info)) is None:
        return None
    if info.state == _FABRIC_NONE:
        return None
    cluster = bytes(info.cluster)
    return Fabric(
        cluster=str(uuid.UUID(bytes=cluster)) if any(cluster) else "",
        clique=info.clique,
        complete=info.state == _FABRIC_COMPLETE and info.status == 0,
    )
