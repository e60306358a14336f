"""The health of one GPU over time, fed with readings and Xids, by the rules of `rules.RULES`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from msgspec import structs

from gpuyard.contracts.hardware import Fault, Health
from gpuyard_monitor.core import xids
from gpuyard_monitor.core.readings import Reading
from gpuyard_monitor.core.rules import BY_NAME, RULES, Known, Rule


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, on two clocks: `at_s` is for people and may jump, `mono_s` measures."""

    at_s: float
    mono_s: float


@dataclass(frozen=True, slots=True)
class _Trend:
    """What a rule has seen without a break, and since when."""

    is_bad: bool
    since_s: float


@dataclass(frozen=True, slots=True)
class Chart:
    """What is wrong with a GPU (`faults`, by rule), and what each rule has seen lately."""

    faults: Mapping[str, Fault] = field(default_factory=lambda: MappingProxyType({}))
    trends: Mapping[str, _Trend] = field(default_factory=lambda: MappingProxyType({}))

    def joined(self, newer: "Chart") -> "Chart":
        """With what a newer chart of the same GPU says; what both know began when this one says."""
        return Chart({**newer.faults, **self.faults}, {**self.trends, **newer.trends})

    def after_reading(self, reading: Reading, known: Known, now: Moment) -> "Chart":
        faults, trends = dict(self.faults), dict(self.trends)
        for rule in RULES:
            seen = rule.sign(reading, known) if rule.sign else None
            if seen is not None:
                trends[rule.name] = trend = _followed(trends.get(rule.name), bool(seen), now)
                _apply(rule, seen, now.mono_s - trend.since_s, faults, now)
        return Chart(_without_what_a_reset_ended(self.faults, faults), trends)

    def after_xid(self, number: int, now: Moment) -> "Chart":
        """Only hardware's Xids count; the first is the one to be told, as others follow from it."""
        if number not in xids.HARDWARE or "xid" in self.faults:
            return self
        fault = Fault("xid", f"Xid {number}: {xids.meaning(number)}", now.at_s)
        return replace(self, faults={**self.faults, "xid": fault})


def recalled(faults: Iterable[Fault]) -> Chart:
    """A chart as an earlier monitor left it. Rules that no longer exist are forgotten."""
    return Chart({fault.rule: fault for fault in faults if fault.rule in BY_NAME})


def verdict(faults: Mapping[str, Fault], trouble: str, foreign: str) -> tuple[Health, str]:
    """Whether work may be placed, and why not with what to do.

    Args:
        trouble: why nothing is known of the GPU; empty if something is.
        foreign: which processes use it that nobody scheduled; empty if none does.

    """
    if faults:
        return Health.OUT, "; ".join(_said(fault) for fault in faults.values())
    if trouble:
        return Health.UNKNOWN, trouble
    if foreign:
        return Health.FOREIGN, foreign
    return Health.OK, ""


def _followed(trend: _Trend | None, is_bad: bool, now: Moment) -> _Trend:
    return trend if trend and trend.is_bad == is_bad else _Trend(is_bad, now.mono_s)


def _apply(rule: Rule, seen: str, lasted_s: float, faults: dict[str, Fault], now: Moment) -> None:
    holding = faults.get(rule.name)
    if holding and seen:
        faults[rule.name] = structs.replace(holding, reason=seen)
    elif holding and lasted_s >= rule.clear_after_s:
        del faults[rule.name]
    elif seen and lasted_s >= rule.after_s:
        faults[rule.name] = Fault(rule.name, seen, now.at_s)


def _without_what_a_reset_ended(
    before: Mapping[str, Fault], after: Mapping[str, Fault]
) -> Mapping[str, Fault]:
    was_reset = any(BY_NAME[name].ends_with_reset for name in before.keys() - after.keys())
    return {name: fault for name, fault in after.items() if name != "xid"} if was_reset else after


def _said(fault: Fault) -> str:
    return f"{fault.reason}; {BY_NAME[fault.rule].remedy}"
