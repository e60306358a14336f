"""What executor and engine say about a rank: its key, the plan to run it, where it stands, how it ended."""

from dataclasses import dataclass
from typing import NamedTuple

from gpuyard.contracts.fact import RankState
from gpuyard.contracts.ids import is_id
from gpuyard.contracts.job import ExitCause

OUT, ERR = 0, 1


class RankKey(NamedTuple):
    """One rank of one attempt: what is run at most once. Its text names directories and containers."""

    job: str
    attempt: int
    rank: int

    def __str__(self) -> str:
        return f"{self.job}.{self.attempt}.{self.rank}"

    @property
    def gang(self) -> "GangKey":
        return GangKey(self.job, self.attempt)


class GangKey(NamedTuple):
    """One attempt of a job, as far as it concerns a node."""

    job: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.job}.{self.attempt}"


def parse_rank_key(text: str) -> RankKey | None:
    """The key with this text; None if it is none."""
    job, _, numbers = text.partition(".")
    attempt, _, rank = numbers.partition(".")
    if not (is_id(job) and attempt.isdecimal() and rank.isdecimal()):
        return None
    return RankKey(job, int(attempt), int(rank))


@dataclass(frozen=True, slots=True)
class Box:
    """What a rank wants of its container. None: the engine's own measure."""

    image: str = ""
    memory_bytes: int | None = None
    cpus: float | None = None
    shm_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RankPlan:
    """All an engine must know before the start; the environment comes with the start."""

    key: RankKey
    command: tuple[str, ...]
    cwd: str
    gpus: tuple[str, ...] = ()
    """GPUs it may see, in their order."""
    grace_s: float = 10.0
    """Seconds between signal and kill when nobody said otherwise, for example at shutdown of the machine."""
    box: Box = Box()
    peers: int = 1
    """Ranks of its gang on this node."""
    is_spread: bool = False
    """Whether the gang has ranks on other nodes."""


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How a rank ended, as far as its engine can tell.

    `stopped`: it was asked to stop before it ended. `cause`: only where the exit code does not tell.
    """

    code: int | None = None
    at_s: float | None = None
    stopped: bool = False
    cause: ExitCause | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class RankStatus:
    """Where a rank stands. `exited` means that nothing of it is left."""

    key: RankKey
    state: RankState
    started_at_s: float | None = None
    end: RankEnd | None = None
