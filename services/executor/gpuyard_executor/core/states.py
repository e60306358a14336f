"""A rank's life as a table. An unknown transition raises.

A step may be missed, never undone: whoever comes late learns only where a rank stands now.
"""

from gpuyard.contracts.fact import RankState

PREPARING, READY, RUNNING, EXITED = (
    RankState.PREPARING,
    RankState.READY,
    RankState.RUNNING,
    RankState.EXITED,
)

TRANSITIONS: dict[RankState, frozenset[RankState]] = {
    PREPARING: frozenset({READY, RUNNING, EXITED}),
    READY: frozenset({RUNNING, EXITED}),
    RUNNING: frozenset({EXITED}),
    EXITED: frozenset(),
}


class UnknownTransition(Exception):
    """An engine reported what the table does not know: a bug."""


def step(before: RankState, after: RankState) -> RankState:
    """The state that follows; staying where one is, is always allowed."""
    if after is not before and after not in TRANSITIONS[before]:
        raise UnknownTransition(f"a rank can't go from {before} to {after}")
    return after
