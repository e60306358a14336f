"""What the executor's core is told, and what it asks its shell to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuyard.contracts.fact import GangFact
from gpuyard.contracts.order import Order
from gpuyard_executor.core.rank import GangKey, RankKey, RankPlan, RankStatus


@dataclass(frozen=True, slots=True)
class Adopted:
    """The executor starts: what one before it was told, what its engine still has, what it last published."""

    orders: tuple[Order, ...]
    statuses: tuple[RankStatus, ...]
    facts: tuple[GangFact, ...]


@dataclass(frozen=True, slots=True)
class OrderReceived:
    """The scheduler wants something. `trace`: W3C traceparent of the order."""

    order: Order
    trace: str = ""


@dataclass(frozen=True, slots=True)
class RankChanged:
    """The engine saw a rank change."""

    status: RankStatus


@dataclass(frozen=True, slots=True)
class PortReserved:
    """A port for rank 0 to listen on; None if none is free."""

    gang: GangKey
    port: int | None


@dataclass(frozen=True, slots=True)
class WorkdirMade:
    """The working directory is there, or why not. No `failure`: it is there."""

    gang: GangKey
    failure: str = ""


@dataclass(frozen=True, slots=True)
class FactPublished:
    """The fact is on the bus."""

    fact: GangFact


@dataclass(frozen=True, slots=True)
class OutputShipped:
    """All output of the rank is on the bus."""

    key: RankKey


Event = Adopted | OrderReceived | RankChanged | PortReserved | WorkdirMade | FactPublished | OutputShipped


@dataclass(frozen=True, slots=True)
class RecordOrder:
    """Put the order on disk before anything that follows from it."""

    order: Order
    trace: str = ""


@dataclass(frozen=True, slots=True)
class RefuseOrder:
    """Do nothing about the order but count it."""

    order: Order
    why: str


@dataclass(frozen=True, slots=True)
class ReservePort:
    """Find a port for rank 0, or remember the one it has."""

    gang: GangKey
    port: int | None = None


@dataclass(frozen=True, slots=True)
class MakeWorkdir:
    """Unpack the uploaded working directory, or make an empty one."""

    gang: GangKey
    upload: str


@dataclass(frozen=True, slots=True)
class PrepareRank:
    plan: RankPlan


@dataclass(frozen=True, slots=True)
class StartRank:
    key: RankKey
    env: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class StopRank:
    key: RankKey
    grace_s: float


@dataclass(frozen=True, slots=True)
class ShipOutput:
    """Bring the rank's output to the bus.

    `is_empty`: no engine knows it; there is only an end to tell. `is_resumed`: some of it may be there.
    `secrets`: values that must not be seen in it, by name; nor in what is said of this effect.
    """

    key: RankKey
    is_empty: bool = False
    is_resumed: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class PublishFact:
    """Only the newest of a job matters."""

    fact: GangFact


@dataclass(frozen=True, slots=True)
class DropFact:
    """So many jobs came after this one that nobody asks for it any more."""

    job: str


@dataclass(frozen=True, slots=True)
class ForgetGang:
    """All is told and shipped: remove what is left of the attempt."""

    gang: GangKey
    ranks: tuple[RankKey, ...]


Effect = (
    RecordOrder
    | RefuseOrder
    | ReservePort
    | MakeWorkdir
    | PrepareRank
    | StartRank
    | StopRank
    | ShipOutput
    | PublishFact
    | DropFact
    | ForgetGang
)
