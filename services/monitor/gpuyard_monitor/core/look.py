"""What a source tells of its node: the hardware (seldom) and a look at it (each second)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuyard.contracts.hardware import Host
from gpuyard_monitor.core.foreign import Origin
from gpuyard_monitor.core.readings import Found, Reading, Xid


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why nothing can be known of the GPUs, and what to do."""

    why: str
    hint: str = ""
    event: str = "driver_lost"
    """The kind of event that it is."""

    @property
    def advice(self) -> str:
        return f"{self.why[:1].upper()}{self.why[1:]}. {self.hint}".strip()


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the node is. No `found`: no driver answers, for `trouble` if there is one to speak of."""

    host: Host
    found: Found | None = None
    trouble: Trouble | None = None
    source: str = ""
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the node. `origins` tells of the processes on its GPUs, by their ids."""

    readings: tuple[Reading, ...] = ()
    xids: tuple[Xid, ...] = ()
    origins: Mapping[int, Origin] = field(default_factory=dict)
    cpu: float | None = None
    memory_used_bytes: int | None = None
    paced: bool = True
    """It holds the costly values too."""
    trouble: Trouble | None = None
