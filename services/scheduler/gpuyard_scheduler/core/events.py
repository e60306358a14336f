"""What the scheduler's core is told, and what it asks its shell to do."""

from collections.abc import Mapping
from dataclasses import dataclass

from gpuyard.contracts.fact import ExecutorInfo, GangFact
from gpuyard.contracts.hardware import Inventory
from gpuyard.contracts.job import Job
from gpuyard.contracts.order import Order
from gpuyard.contracts.request import Reply, Request


@dataclass(frozen=True, slots=True)
class Requested:
    """A client asks for something."""

    request: Request
    trace: str = ""


@dataclass(frozen=True, slots=True)
class InventorySeen:
    """A monitor described its node."""

    inventory: Inventory


@dataclass(frozen=True, slots=True)
class ExecutorSeen:
    """An executor presented itself."""

    info: ExecutorInfo


@dataclass(frozen=True, slots=True)
class BeatSeen:
    """An executor is alive."""

    node: str


@dataclass(frozen=True, slots=True)
class LoadSeen:
    """The measured load of a node's free GPUs changed; `levels` by UUID, idle ones left out."""

    node: str
    levels: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class FactSeen:
    """An executor reported what runs."""

    fact: GangFact


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time passed."""


Event = Requested | InventorySeen | ExecutorSeen | BeatSeen | LoadSeen | FactSeen | Ticked


@dataclass(frozen=True, slots=True)
class Commit:
    """Write this record, fenced by the term, before anything that follows from it."""

    job: Job


@dataclass(frozen=True, slots=True)
class Give:
    """Send an order to its node."""

    order: Order
    trace: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell the client."""

    reply_to: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete the history of a job that ended long ago."""

    job: str


Effect = Commit | Give | Answer | Forget
