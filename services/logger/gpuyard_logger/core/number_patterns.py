"""Numbers that a job's own rules find."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from gpuyard.contracts.job import MetricRule
from gpuyard.contracts.pattern import compiled
from gpuyard.contracts.series import STEP, Number

Rule = Callable[[str], list[Number]]
"""Gives the numbers in a line."""


def rules_of(metrics: Iterable[MetricRule]) -> Sequence[Rule]:
    """A job's rules, ready to use.

    Raises:
        InvalidSpec: a pattern is none.

    """
    return [partial(_find, rule.name, compiled(rule.pattern)) for rule in metrics]


def _find(name: str, pattern: Any, line: str) -> list[Number]:
    match = pattern.search(line)
    if match is None:
        return []
    groups = match.groupdict()
    value, step, total = (_float(groups.get(group)) for group in ("value", STEP, "total"))
    found = [] if value is None else [Number(name, value, total if name == STEP else None)]
    if step is not None:
        found.append(Number(STEP, step, total))
    return found


def _float(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
