"""How many NVLinks bond two GPUs, from what each GPU's own ports report.

A port knows the far end's bus id, not its GPU. Directly wired GPUs name each other. Behind an NVSwitch
the far end is the switch, and inside virtual machines it is hidden; then every active port reaches every
peer. Ports may be up on one side only for a while: the smaller count holds.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ports:
    """Active NVLink ports of one GPU, by what is at the far end; `numbers` names all ports, up or down."""

    bus_id: str
    peers: tuple[str, ...] = ()
    """Bus ids of GPUs, once for each link."""
    switched: int = 0
    """Into a switch or the unknown."""
    to_cpu: int = 0
    numbers: tuple[int, ...] = ()

    @property
    def active(self) -> int:
        return len(self.peers) + self.switched + self.to_cpu


def bonded(a: Ports, b: Ports) -> int:
    """NVLinks wired directly between two GPUs."""
    return min(a.peers.count(b.bus_id), b.peers.count(a.bus_id))


def switched(a: Ports, b: Ports) -> int:
    """NVLinks that could join two GPUs through a switch, if the driver says that they reach each other."""
    return min(a.switched, b.switched)
