"""Which stored output is to go: by age, by size, and when the disk is short of room.

Only whole jobs go that have ended and are not pinned, those first that ended first. Values in, values out;
O(n log n) in the number of jobs.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

DAY_S = 86400.0
_RESERVE = 4


class Output(NamedTuple):
    """Stored output of one job."""

    job: str
    last_at_s: float
    """Time of its newest line."""
    size_bytes: int
    local_bytes: int
    """What of it lies on this logger's disk."""
    is_pinned: bool = False
    ended_at_s: float | None = None
    """None: it has not ended, as far as is known."""
    labels: Mapping[str, str] = {}

    @property
    def over_at_s(self) -> float:
        """When nothing came any more."""
        return max(self.ended_at_s or 0.0, self.last_at_s)

    @property
    def may_go(self) -> bool:
        return self.ended_at_s is not None and not self.is_pinned


class Rule(NamedTuple):
    """How long output of jobs with these labels is kept; None: without limit."""

    labels: Mapping[str, str]
    age_s: float | None
    total_bytes: int | None

    def fits(self, output: Output) -> bool:
        return self.labels.items() <= output.labels.items()


class Disk(NamedTuple):
    """Room on the disk, and what of it the store takes."""

    total_bytes: int
    free_bytes: int
    held_bytes: int
    """All files of segments."""
    leaving_bytes: int
    """What of them is not needed any more, and soon free."""


class Marks(NamedTuple):
    """How full a disk may be."""

    store_share: float
    free_share: float
    free_bytes: int

    def least_free(self, disk: Disk) -> int:
        return min(int(disk.total_bytes * self.free_share), self.free_bytes)


def excess_bytes(disk: Disk, marks: Marks) -> int:
    """How much must go so that the store keeps its share, and the disk its room."""
    over_share = disk.held_bytes - disk.leaving_bytes - int(disk.total_bytes * marks.store_share)
    short = marks.least_free(disk) - disk.free_bytes - disk.leaving_bytes
    return max(over_share, short, 0)


def is_too_full(disk: Disk, marks: Marks) -> bool:
    """Whether to take in nothing more. What is leaving counts as room, but some must be there to shift it."""
    least = marks.least_free(disk)
    return disk.free_bytes + disk.leaving_bytes < least or disk.free_bytes < least // _RESERVE


def to_drop(
    outputs: Iterable[Output], rules: Sequence[Rule], now_s: float, disk_bytes: int
) -> dict[str, str]:
    """The jobs to let go, and why, in that order.

    Args:
        outputs: All there is.
        rules: The first that fits a job holds for it; a job that none fits is kept.
        now_s: The time.
        disk_bytes: How much of this disk must get free.

    """
    kept = sorted(outputs, key=lambda output: (output.over_at_s, output.job))
    dropped: dict[str, str] = {}
    for rule, own in _by_rule(kept, rules):
        dropped |= _by_age(rule, own, now_s)
        dropped |= _by_size(rule, [output for output in own if output.job not in dropped])
    freed_bytes = sum(output.local_bytes for output in kept if output.job in dropped)
    rest = [output for output in kept if output.job not in dropped]
    return dropped | _by_room(rest, disk_bytes - freed_bytes)


def _by_rule(kept: Sequence[Output], rules: Sequence[Rule]) -> list[tuple[Rule, list[Output]]]:
    groups: list[tuple[Rule, list[Output]]] = [(rule, []) for rule in rules]
    for output in kept:
        own = next((own for rule, own in groups if rule.fits(output)), None)
        if own is not None:
            own.append(output)
    return groups


def _by_age(rule: Rule, own: Iterable[Output], now_s: float) -> dict[str, str]:
    if rule.age_s is None:
        return {}
    why = f"kept for {rule.age_s / DAY_S:g} days after its end"
    before_s = now_s - rule.age_s
    return {output.job: why for output in own if output.may_go and output.over_at_s < before_s}


def _by_size(rule: Rule, own: Sequence[Output]) -> dict[str, str]:
    if rule.total_bytes is None:
        return {}
    over_bytes = sum(output.size_bytes for output in own) - rule.total_bytes
    dropped = {}
    for output in own:
        if over_bytes <= 0:
            break
        if output.may_go:
            dropped[output.job] = "it was the oldest, and others needed its share of the store"
            over_bytes -= output.size_bytes
    return dropped


def _by_room(rest: Iterable[Output], disk_bytes: int) -> dict[str, str]:
    dropped = {}
    for output in rest:
        if disk_bytes <= 0:
            break
        if output.may_go and output.local_bytes:
            dropped[output.job] = "it was the oldest, and the disk was nearly full"
            disk_bytes -= output.local_bytes
    return dropped
