"""The health of one GPU over time, fed with readings and Xids, by the rules of `rules.RULES`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from msgspec import structs

from gpuyard.contracts.hardware import Fault, Health
from gpuyard_monitor.core import xids
from gpuyard_monitor.core.readings import Reading
from gpuyard_monitor.core.rules import BY_NAME, RULES, Known, Rule

_KEPT_TIMES = 2.0
"""The energy counter is kept with a fault each time it has doubled: seldom, and never far behind."""


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
    """What is wrong with a GPU (`faults`, by rule), what each rule has seen lately, and the energy counter.

    The counter only grows, unless the driver starts the GPU anew: this is how a reset shows.
    """

    faults: Mapping[str, Fault] = field(default_factory=lambda: MappingProxyType({}))
    trends: Mapping[str, _Trend] = field(default_factory=lambda: MappingProxyType({}))
    energy_j: float | None = None

    def joined(self, newer: "Chart") -> "Chart":
        """With what a newer chart of the same GPU says; what both know began when this one says."""
        known = self.after_energy(newer.energy_j)
        return Chart({**newer.faults, **known.faults}, {**self.trends, **newer.trends}, known.energy_j)

    def after_reading(
        self, reading: Reading, known: Known, now: Moment, rules: Iterable[Rule] = RULES
    ) -> "Chart":
        faults, trends = dict(self.faults), dict(self.trends)
        for rule in rules:
            seen = rule.sign(reading, known) if rule.sign else None
            if seen is not None:
                trends[rule.name] = trend = _followed(trends.get(rule.name), bool(seen), now)
                _apply(rule, seen, now.mono_s - trend.since_s, faults, now)
        was_reset = any(BY_NAME[name].ends_with_reset for name in self.faults.keys() - faults.keys())
        chart = Chart(_without_xid(faults) if was_reset else faults, trends, self.energy_j)
        return chart.after_energy(reading.energy_j)

    def after_energy(self, energy_j: float | None) -> "Chart":
        """A counter that fell was set back by a reset, and with it ends what an Xid told of."""
        if energy_j is None:
            return self
        if self.energy_j is not None and energy_j < self.energy_j:
            return replace(self, faults=_without_xid(self.faults), energy_j=energy_j)
        return replace(self, faults=_with_energy(self.faults, energy_j), energy_j=energy_j)

    def after_xid(self, number: int, now: Moment) -> "Chart":
        """Only hardware's Xids count; the first is the one to be told, as others follow from it."""
        if number not in xids.HARDWARE or "xid" in self.faults:
            return self
        fault = Fault("xid", f"Xid {number}: {xids.meaning(number)}", now.at_s, self.energy_j)
        return replace(self, faults={**self.faults, "xid": fault})


def recalled(faults: Iterable[Fault], rules: Iterable[Rule] = RULES) -> Chart:
    """A chart as an earlier monitor left it. Rules that are no longer in force are forgotten."""
    names = {rule.name for rule in rules}
    known = {fault.rule: fault for fault in faults if fault.rule in names}
    seen_j = [fault.energy_j for fault in known.values() if fault.energy_j is not None]
    return Chart(known, energy_j=max(seen_j, default=None))


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


def _without_xid(faults: Mapping[str, Fault]) -> Mapping[str, Fault]:
    return {name: fault for name, fault in faults.items() if name != "xid"}


def _with_energy(faults: Mapping[str, Fault], energy_j: float) -> Mapping[str, Fault]:
    """The monitor that comes after this one must see whether the counter fell in between."""
    xid = faults.get("xid")
    if xid is None or (xid.energy_j is not None and energy_j < _KEPT_TIMES * xid.energy_j):
        return faults
    return {**faults, "xid": structs.replace(xid, energy_j=energy_j)}


def _said(fault: Fault) -> str:
    return f"{fault.reason}; {BY_NAME[fault.rule].remedy}"
