"""What one look at the GPUs gives: the words in which NVML and the rest of the monitor talk.

Raw and complete: nothing here is judged, averaged or turned into rates. None means that the driver does not
tell, which is normal: each model and each driver leaves something out.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.hardware import Gpu, Link, Nic


@dataclass(frozen=True, slots=True)
class RawProcess:
    """A process on a GPU; `pid` is that of the host."""

    pid: int
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Remapped:
    """Rows of memory that spare rows replaced, Ampere and later."""

    corrected: int
    uncorrected: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """One look at one GPU. If it is `lost` (fell off the bus), everything else is None."""

    uuid: str
    lost: bool = False
    utilisation: float | None = None
    memory_used_bytes: int | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    clock_reasons: tuple[str, ...] | None = None
    """Why its clocks are held down, by the names in `CLOCK_REASONS`."""
    processes: tuple[RawProcess, ...] | None = None
    nvlink_tx_bytes: int | None = None
    """Running counter over all ports."""
    nvlink_rx_bytes: int | None = None
    pcie_tx_bytes_s: float | None = None
    pcie_rx_bytes_s: float | None = None
    ecc_corrected: int | None = None
    """Memory errors since the driver was loaded."""
    ecc_uncorrected: int | None = None
    remapped: Remapped | None = None
    retired_pages: int | None = None
    """Before Ampere."""
    nvlinks_active: int | None = None
    recovery: str | None = None
    """What the driver wants done, by the names in `RECOVERY`."""
    energy_j: float | None = None
    """Running counter since the driver started the GPU, Volta and later."""


CLOCK_REASONS = {
    0x04: "power_cap",
    0x08: "hw_slowdown",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
}
"""Bits that the driver sets; idle clocks and clocks that somebody asked for are no hindrance."""

RECOVERY = {
    0: "none",
    1: "reset",
    2: "reboot",
    3: "drain",
    4: "drain_reset",
    5: "recover_imex",
    6: "bus_reset",
    7: "machine_reboot",
}
"""What the driver wants done before the GPU can be trusted again."""


@dataclass(frozen=True, slots=True)
class Xid:
    """An error that the driver reported; `uuid` is None if it does not say on which GPU."""

    uuid: str | None
    number: int


@dataclass(frozen=True, slots=True)
class Found:
    """The GPUs that answered. `count` is how many the driver counts, `missing` how many of those did not."""

    gpus: tuple[Gpu, ...] = ()
    links: tuple[Link, ...] = ()
    nics: tuple[Nic, ...] = ()
    missing: int = 0
    count: int = 0


class DriverChanged(Unavailable):
    """The driver was replaced while this process had the old one's library open."""

    def __init__(self) -> None:
        super().__init__(
            "the NVIDIA driver was changed under the running system",
            "Restart the monitor; if that does not help, reboot the machine.",
        )


def merged(processes: Iterable[RawProcess]) -> tuple[RawProcess, ...]:
    """Each process once, by pid: one that computes and draws is in two of the driver's lists."""
    found: dict[int, int | None] = {}
    for one in processes:
        known = [each for each in (found.get(one.pid), one.memory_bytes) if each is not None]
        found[one.pid] = max(known, default=None)
    return tuple(RawProcess(pid, memory_bytes) for pid, memory_bytes in sorted(found.items()))
