"""The seam between the executor and whatever runs ranks: plain processes, memory, later Docker.

One contract suite runs on every implementation: tests/contract/test_engine.py. What an engine started goes on
while the executor is away, and a new engine on the same place finds it again.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gpuyard_executor.core.rank import RankKey, RankPlan, RankStatus


@dataclass(frozen=True, slots=True)
class OutputChunk:
    """At most 64 KiB read at one moment from one stream of a rank. Positions are opaque, but grow."""

    stream: int
    at_s: float
    data: bytes
    offset: int
    next_offset: int


class Engine(Protocol):
    """Runs ranks. Every call may be repeated; a rank is never started twice."""

    async def list(self) -> Sequence[RankStatus]:
        """Every rank there is, also those that an executor before this one prepared."""
        ...

    def changes(self) -> AsyncIterator[RankStatus]:
        """Every change from `list` on, in order, for ever. For one reader."""
        ...

    async def prepare(self, plan: RankPlan) -> None:
        """Get a rank ready to start; the change to `ready`, or to `exited`, follows."""
        ...

    async def start(self, key: RankKey, env: Mapping[str, str]) -> None:
        """Run the command with exactly this environment, unless it ran before."""
        ...

    async def stop(self, key: RankKey, grace_s: float) -> None:
        """Signal all processes; after the grace kill what is left. The earliest deadline holds."""
        ...

    def output(self, key: RankKey, offset: int = 0) -> AsyncGenerator[Sequence[OutputChunk], None]:
        """What the rank prints, from an offset on, as it comes; ends when its output is complete."""
        ...

    async def remove(self, key: RankKey, *, output_before: int | None = None) -> None:
        """Forget output before an offset, or without one the whole rank, which must have exited."""
        ...
