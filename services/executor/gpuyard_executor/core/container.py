"""The container of a rank, as the engine's API wants it described: hardened unless said otherwise.

What each setting fences off is told in docs/concepts/isolation.md. The environment of the rank is no part of
it: see core/container_script.py.
"""

from dataclasses import dataclass
from typing import Any

from gpuyard.contracts.container_engine import GpuAccess
from gpuyard_executor.core.rank import GangKey, RankKey, RankPlan

HOME_LABEL, RANK_LABEL, GANG_LABEL = "gpuyard.home", "gpuyard.rank", "gpuyard.gang"
WORKDIR, INSIDE = "/workspace", "/run/gpuyard"
SCRIPT = "start"
"""Name of the file, in the directory mounted at INSIDE, that starts the rank."""

_SHM_BYTES = 1 << 30
_MEMORY_SHARE = 0.9
_MASK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ContainerRules:
    """What an operator decides for all containers of a node."""

    home: str
    """Directory of the executor: whose containers these are."""
    user: str
    pids: int = 4096
    has_internet: bool = False


@dataclass(frozen=True, slots=True)
class ContainerPlace:
    """What is found out about node, image and gang before a container is made. No network: loopback only."""

    image: str
    pipes: str
    network: str = ""
    memory_bytes: int | None = None
    """Of the machine; None if unknown."""
    access: GpuAccess | None = None


def host_name(rank: int) -> str:
    """Under which the others of its gang reach a rank."""
    return f"rank-{rank}"


def labels_of(home: str, gang: GangKey, key: RankKey | None = None) -> dict[str, str]:
    labels = {HOME_LABEL: home, GANG_LABEL: str(gang)}
    return labels | {RANK_LABEL: str(key)} if key else labels


def container_body(plan: RankPlan, place: ContainerPlace, rules: ContainerRules) -> dict[str, Any]:
    """Body of the request that creates the container."""
    name = host_name(plan.key.rank)
    endpoints = {place.network: {"Aliases": [name]}} if place.network else {}
    return {
        "Image": place.image,
        "Entrypoint": ["/bin/sh", f"{INSIDE}/{SCRIPT}"],
        "Cmd": list(plan.command),
        "Env": _environment(plan, place),
        "User": rules.user,
        "WorkingDir": WORKDIR,
        "Hostname": name,
        "Labels": labels_of(rules.home, plan.key.gang, plan.key),
        "StopSignal": "SIGTERM",
        "StopTimeout": round(plan.grace_s),
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": _host_config(plan, place, rules),
        "NetworkingConfig": {"EndpointsConfig": endpoints},
    }


def _host_config(plan: RankPlan, place: ContainerPlace, rules: ContainerRules) -> dict[str, Any]:
    return {
        "Init": True,
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges:true"],
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "PidsLimit": rules.pids,
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
        "RestartPolicy": {"Name": "no"},
        # Only what the launcher says goes there: the rank's own output takes the pipes.
        "LogConfig": {"Type": "json-file", "Config": {"max-size": str(_MASK_BYTES), "max-file": "1"}},
        "Mounts": _mounts(plan, place),
        **_limits(plan, place),
        **_network(plan, place),
        **_devices(plan, place),
    }


def _limits(plan: RankPlan, place: ContainerPlace) -> dict[str, Any]:
    """A rank that says nothing may not take the whole machine's memory. Swap is never added to it."""
    limits: dict[str, Any] = {"ShmSize": plan.box.shm_bytes or _SHM_BYTES}
    memory_bytes = plan.box.memory_bytes
    if memory_bytes is None and place.memory_bytes is not None:
        memory_bytes = int(place.memory_bytes * _MEMORY_SHARE)
    if memory_bytes is not None:
        limits |= {"Memory": memory_bytes, "MemorySwap": memory_bytes}
    if plan.box.cpus is not None:
        limits["NanoCpus"] = round(plan.box.cpus * 1e9)
    return limits


def _mounts(plan: RankPlan, place: ContainerPlace) -> list[dict[str, Any]]:
    """The pipes can be written to though their directory can't."""
    return [
        {"Type": "bind", "Source": plan.cwd, "Target": WORKDIR, "ReadOnly": False},
        {"Type": "bind", "Source": place.pipes, "Target": INSIDE, "ReadOnly": True},
    ]


def _network(plan: RankPlan, place: ContainerPlace) -> dict[str, Any]:
    if place.network:
        return {"NetworkMode": place.network}
    return {"NetworkMode": "none", "ExtraHosts": [f"{host_name(plan.key.rank)}:127.0.0.1"]}


def _environment(plan: RankPlan, place: ContainerPlace) -> list[str]:
    """What the engine and NVIDIA's runtime look at: an image or a user must not have the last word here."""
    by_variable = plan.gpus and place.access is GpuAccess.RUNTIME
    variables = {
        "HOME": WORKDIR,
        "USER": "gpuyard",
        "LOGNAME": "gpuyard",
        "TINI_KILL_PROCESS_GROUP": "1",
        "NVIDIA_VISIBLE_DEVICES": ",".join(plan.gpus) if by_variable else "void",
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    if place.access is GpuAccess.REQUEST and plan.gpus:
        del variables["NVIDIA_VISIBLE_DEVICES"]  # the engine sets it from the request
    return [f"{name}={value}" for name, value in variables.items()]


def _devices(plan: RankPlan, place: ContainerPlace) -> dict[str, Any]:
    if not plan.gpus:
        return {}
    match place.access:
        case GpuAccess.CDI:
            ids = [f"nvidia.com/gpu={gpu}" for gpu in plan.gpus]
            return {"DeviceRequests": [{"Driver": "cdi", "DeviceIDs": ids}]}
        case GpuAccess.REQUEST:
            return {"DeviceRequests": [{"DeviceIDs": list(plan.gpus), "Capabilities": [["gpu"]]}]}
        case GpuAccess.RUNTIME:
            return {"Runtime": "nvidia"}
    raise AssertionError("a rank with GPUs needs a way to get them")
