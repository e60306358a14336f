"""What a container engine says of itself (`GET /info`), and what follows for ranks that want GPUs. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_CDI_KIND = "nvidia.com/gpu="
LIVE_RESTORE_FIX = (
    'Add `"live-restore": true` to /etc/docker/daemon.json and reload it: `systemctl reload docker`.'
)


class GpuAccess(StrEnum):
    """How a container gets its GPUs."""

    CDI = "cdi"
    RUNTIME = "runtime"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What matters here of an engine."""

    version: str
    has_live_restore: bool
    runtimes: tuple[str, ...] = ()
    cdi_gpus: tuple[str, ...] = ()
    """GPUs the engine found described by CDI, by UUID, index or `all`."""
    memory_bytes: int | None = None


def parse_info(raw: Mapping[str, Any]) -> EngineInfo:
    """Read the answer to `GET /info` of any engine since 19.03.

    Raises:
        ValueError: it is no such answer.

    """
    if not isinstance(raw, Mapping) or "ServerVersion" not in raw:
        raise ValueError("it does not describe itself")
    found = (str(device.get("ID", "")) for device in raw.get("DiscoveredDevices") or ())
    return EngineInfo(
        version=str(raw.get("ServerVersion", "")),
        has_live_restore=bool(raw.get("LiveRestoreEnabled")),
        runtimes=tuple(sorted(raw.get("Runtimes") or ())),
        cdi_gpus=tuple(id_.removeprefix(_CDI_KIND) for id_ in found if id_.startswith(_CDI_KIND)),
        memory_bytes=raw.get("MemTotal") or None,
    )


def choose_gpu_access(info: EngineInfo) -> tuple[GpuAccess, str]:
    """The best way this engine offers, and why.

    CDI names devices in the container's own description, so nothing is injected behind the engine's back.
    Whether device requests work can't be seen: the engine looks for NVIDIA's hook when it starts.
    """
    if info.cdi_gpus:
        return GpuAccess.CDI, f"the engine found {len(info.cdi_gpus)} GPUs described by CDI"
    if "nvidia" in info.runtimes:
        return GpuAccess.RUNTIME, "the engine has no CDI devices, but the runtime `nvidia`"
    return GpuAccess.REQUEST, "the engine has neither CDI devices nor the runtime `nvidia`"
