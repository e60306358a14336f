"""The machine's network cards and how near each is to each GPU, from /sys."""

from collections.abc import Sequence
from pathlib import Path

from gpuyard.contracts.hardware import Level, Nic
from gpuyard_monitor import host
from gpuyard_monitor.core import pcie
from gpuyard_monitor.core.pcie import Place
from gpuyard_monitor.core.plain import plain

# In this order: a card with both is known by its InfiniBand name (`mlx5_0`), as in `nvidia-smi topo -m`.
_CLASSES = ("infiniband", "net")


def read_nics(gpu_bus_ids: Sequence[str], root: Path = host.ROOT) -> tuple[Nic, ...]:
    """Physical cards in the order of their places; their levels in the order of the GPUs."""
    gpus = [_spot(host.pci_folder(bus_id, root)) for bus_id in gpu_bus_ids]
    cards = sorted(_cards(root).items())
    return tuple(
        Nic(plain(name), tuple(_level(_spot(folder), gpu) for gpu in gpus)) for _, (name, folder) in cards
    )


def _cards(root: Path) -> dict[Place, tuple[str, Path]]:
    """Name and folder of each physical card; virtual functions are parts of a card, not cards."""
    found: dict[Place, tuple[str, Path]] = {}
    for folder in (folder for each in _CLASSES for folder in _entries(root / "sys/class" / each)):
        device = folder / "device"
        place = pcie.place(str(device.resolve()))
        if place and not (device / "physfn").exists():
            found.setdefault(place, (folder.name, device))
    return found


def _spot(folder: Path) -> tuple[Place | None, int | None]:
    return pcie.place(str(folder.resolve())), host.read_numa(folder)


def _level(card: tuple[Place | None, int | None], gpu: tuple[Place | None, int | None]) -> Level | None:
    if card[0] is None or gpu[0] is None:
        return None
    return pcie.level(card[0], gpu[0], card[1], gpu[1])


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
