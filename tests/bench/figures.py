"""Figures and their spread: several runs, medians, because the machine has noise of its own."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One measured figure beside what is promised. `runs` holds the figure of each run."""

    name: str
    unit: str
    runs: tuple[float, ...]
    promise: str = ""
    limit: float | None = None
    more_is_better: bool = False

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    @property
    def holds(self) -> bool | None:
        if self.limit is None:
            return None
        return self.median >= self.limit if self.more_is_better else self.median <= self.limit

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "unit": self.unit,
            "median": round(self.median, 4),
            "least": round(min(self.runs), 4),
            "most": round(max(self.runs), 4),
            "runs": len(self.runs),
            "promise": self.promise,
            "holds": self.holds,
        }


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, round(percent / 100 * len(ordered)) - 1))]
