"""The devices that are measured: this rank's GPUs, or the host's memory standing in for them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from .report import Unfit


@dataclass(frozen=True)
class Device:
    """A GPU's UUID and where torch finds it."""

    gpu: str
    at: torch.device


def found(kind: str, gpus: Sequence[str]) -> list[Device]:
    """The rank's GPUs as torch sees them.

    Raises:
        Unfit: fewer than two, or torch does not see all of them.

    """
    if len(gpus) < 2:
        raise Unfit(f"this rank has {len(gpus) or 'no'} GPU; a link needs two")
    if kind == "cpu":
        return [Device(gpu, torch.device("cpu")) for gpu in gpus]
    return [Device(gpu, torch.device("cuda", index)) for index, gpu in enumerate(_in_torch_order(gpus))]


def _in_torch_order(gpus: Sequence[str]) -> Sequence[str]:
    """The UUIDs by torch's index: by what the devices say of themselves, where torch tells."""
    if not torch.cuda.is_available():
        raise Unfit(
            f"torch {torch.__version__} sees no GPU here",
            "Install a torch with CUDA where the job runs: `pip install torch`.",
        )
    count = torch.cuda.device_count()
    if count != len(gpus):
        raise Unfit(f"torch sees {count} of this rank's {len(gpus)} GPUs", "Look at `nvidia-smi` there.")
    told = [getattr(torch.cuda.get_device_properties(index), "uuid", "") for index in range(count)]
    uuids = [f"GPU-{uuid}" for uuid in told]
    return uuids if set(uuids) == set(gpus) else gpus


def free_bytes(devices: Sequence[Device]) -> int | None:
    """Free memory of the fullest GPU; None for the host's."""
    gpus = [device.at for device in devices if device.at.type == "cuda"]
    return min((torch.cuda.mem_get_info(gpu)[0] for gpu in gpus), default=None)


def can_peer(a: torch.device, b: torch.device) -> bool | None:
    """Whether the driver lets one GPU reach into the other's memory; None where that means nothing."""
    return torch.cuda.can_device_access_peer(a, b) if a.type == "cuda" else None


def settle(*places: torch.device) -> None:
    """Wait until nothing is under way there."""
    for place in places:
        if place.type == "cuda":
            torch.cuda.synchronize(place)


def timed_s(place: torch.device, work: Callable[[], object]) -> float:
    """Seconds that the work takes on the device that it is queued on, by that device's own clock."""
    if place.type != "cuda":
        begun_s = time.perf_counter()
        work()
        return time.perf_counter() - begun_s
    with torch.cuda.device(place):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        begun.record()
        work()
        ended.record()
        ended.synchronize()
        return float(begun.elapsed_time(ended)) / 1000
