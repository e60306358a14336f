from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.hardware import Fault, Health
from gpuyard_monitor.core import xids
from gpuyard_monitor.core.health import Chart, Moment, recalled, verdict
from gpuyard_monitor.core.readings import Reading, Remapped
from gpuyard_monitor.core.rules import BY_NAME, RULES, Known, in_force

WELL = Reading(
    "g0",
    clock_reasons=("power_cap", "hw_slowdown"),
    ecc_corrected=7,
    ecc_uncorrected=0,
    remapped=Remapped(3, 0, pending=False, failed=False),
    retired_pages=2,
    nvlinks_active=12,
    recovery="none",
)
KNOWN = Known(nvlinks=12, mig=False)
SILENT = Reading("g0")
LOST = Reading("g0", lost=True)

BAD: dict[str, Reading] = {
    "lost": LOST,
    "ecc": replace(WELL, ecc_uncorrected=1),
    "rows_failed": replace(WELL, remapped=Remapped(3, 1, pending=False, failed=True)),
    "rows_pending": replace(WELL, remapped=Remapped(3, 1, pending=True, failed=False)),
    "pages": replace(WELL, retired_pages=60),
    "nvlink": replace(WELL, nvlinks_active=11),
    "thermal": replace(WELL, clock_reasons=("hw_thermal",)),
    "power_brake": replace(WELL, clock_reasons=("hw_slowdown", "power_brake")),
    "recovery": replace(WELL, recovery="reset"),
}


def at(second: float) -> Moment:
    return Moment(1_700_000_000.0 + second, second)


def fed(chart: Chart, reading: Reading, *seconds: float, known: Known = KNOWN) -> Chart:
    for second in seconds:
        chart = chart.after_reading(reading, known, at(second))
    return chart


def broken(rule: str) -> Chart:
    """A GPU for which one rule has held since the tenth second."""
    chart = fed(Chart(), BAD[rule], *range(11))
    assert set(chart.faults) == {rule}
    return chart


def test_a_well_gpu_has_no_faults() -> None:
    assert fed(Chart(), WELL, *range(100)).faults == {}
    assert verdict({}, "", "") == (Health.OK, "")


@pytest.mark.parametrize("rule", BAD)
def test_each_rule_acts_within_ten_seconds_and_says_why_and_what_to_do(rule: str) -> None:
    # Costly values come every four seconds, and the first look may miss the fault by a moment.
    health, reason = verdict(fed(Chart(), BAD[rule], 3.9, 7.9).faults, "", "")
    if BY_NAME[rule].after_s <= 4:
        assert health is Health.OUT
    chart = broken(rule)
    health, reason = verdict(chart.faults, "", "")
    assert health is Health.OUT
    assert reason == f"{chart.faults[rule].reason}; {BY_NAME[rule].remedy}"
    assert chart.faults[rule].since_s <= at(10).at_s


@pytest.mark.parametrize("rule", BAD)
def test_each_rule_clears_after_its_time(rule: str) -> None:
    clears_s = BY_NAME[rule].clear_after_s
    chart = fed(broken(rule), WELL, 11.0, 11.0 + clears_s - 0.1) if clears_s else broken(rule)
    assert set(chart.faults) == {rule}
    assert fed(chart, WELL, 11.0 + clears_s).faults == {}


@pytest.mark.parametrize("rule", [rule.name for rule in RULES if rule.clear_after_s and rule.sign])
def test_a_relapse_starts_the_wait_anew(rule: str) -> None:
    chart = fed(broken(rule), WELL, 11, 60)
    chart = fed(fed(chart, BAD[rule], 61), WELL, 62, 100, 121)
    assert set(chart.faults) == {rule}
    assert fed(chart, WELL, 122).faults == {}


@pytest.mark.parametrize("rule", ["thermal", "power_brake", "nvlink"])
def test_one_bad_moment_is_none(rule: str) -> None:
    chart = Chart()
    for second in range(0, 100, 2):
        chart = fed(fed(chart, BAD[rule], second), WELL, second + 1)
    assert chart.faults == {}


@pytest.mark.parametrize("rule", BAD)
def test_what_the_driver_does_not_tell_changes_nothing(rule: str) -> None:
    chart = fed(broken(rule), SILENT, *range(11, 40))
    if rule != "lost":  # a GPU that answers at all is not lost
        assert set(chart.faults) == {rule}
    assert fed(Chart(), SILENT, *range(40), known=Known()).faults == {}


@pytest.mark.parametrize("reasons", [("power_cap",), ("hw_slowdown",), ()])
def test_normal_slow_down_is_no_fault(reasons: tuple[str, ...]) -> None:
    assert fed(Chart(), replace(WELL, clock_reasons=reasons), *range(60)).faults == {}


@pytest.mark.parametrize("number", sorted(xids.HARDWARE))
def test_hardware_xids_take_it_out_for_good(number: int) -> None:
    chart = Chart().after_xid(number, at(5))
    assert verdict(chart.faults, "", "")[0] is Health.OUT
    assert str(number) in chart.faults["xid"].reason
    assert set(fed(chart, WELL, *range(6, 200)).faults) == {"xid"}


@pytest.mark.parametrize("number", [*xids.PROGRAM, 13, 31, 43, 45, 68, 109, 0, 9999])
def test_other_xids_never_do(number: int) -> None:
    assert Chart().after_xid(number, at(5)) == Chart()


def test_the_programs_and_the_hardwares_xids_are_apart() -> None:
    assert not xids.PROGRAM.keys() & xids.HARDWARE.keys()
    assert xids.HARDWARE.keys() >= {48, 63, 64, 74, 79, 94, 95, 119, 120}


def test_the_first_xid_is_told() -> None:
    chart = Chart().after_xid(74, at(1)).after_xid(79, at(2))
    assert chart.faults["xid"] == Fault("xid", "Xid 74: NVLink error", at(1).at_s)


@pytest.mark.parametrize("rule", ["lost", "ecc", "rows_pending", "recovery"])
def test_an_xid_ends_with_what_only_a_reset_ends(rule: str) -> None:
    chart = broken(rule).after_xid(79, at(10))
    assert set(fed(chart, WELL, *range(11, 80)).faults) == set()


@pytest.mark.parametrize("rule", ["thermal", "power_brake", "nvlink", "rows_failed", "pages"])
def test_an_xid_outlasts_the_rest(rule: str) -> None:
    chart = broken(rule).after_xid(79, at(10))
    assert set(fed(chart, WELL, *range(11, 80)).faults) == {"xid"}


def test_mig_mode_takes_it_out_until_it_is_off() -> None:
    chart = fed(Chart(), WELL, 0, known=Known(mig=True))
    assert "whole GPUs" in chart.faults["mig"].reason
    assert fed(chart, WELL, 1).faults == {}


def test_the_reason_follows_what_is_seen_and_the_time_stays() -> None:
    chart = fed(broken("nvlink"), replace(WELL, nvlinks_active=6), 20)
    assert chart.faults["nvlink"].reason == "6 of 12 NVLinks are up"
    assert chart.faults["nvlink"].since_s < at(11).at_s


def test_several_faults_are_all_told() -> None:
    chart = fed(broken("ecc"), LOST, 11)
    assert verdict(chart.faults, "", "")[1].count("reset the GPU") == 2


def test_unknown_actions_are_told_as_they_are() -> None:
    assert "recover_imex" in fed(Chart(), replace(WELL, recovery="recover_imex"), 0).faults["recovery"].reason


def test_the_worst_is_told_first() -> None:
    faults = broken("ecc").faults
    assert verdict(faults, "driver changed", "a stranger")[0] is Health.OUT
    assert verdict({}, "driver changed", "a stranger") == (Health.UNKNOWN, "driver changed")
    assert verdict({}, "", "a stranger") == (Health.FOREIGN, "a stranger")


def test_a_chart_is_recalled_and_goes_on() -> None:
    known = [Fault("lost", "fell off the bus", 1.0), Fault("no_longer_a_rule", "?", 1.0)]
    chart = recalled(known)
    assert set(chart.faults) == {"lost"}
    newer = fed(Chart(), LOST, 5)
    assert chart.joined(newer).faults["lost"].since_s == 1.0
    assert fed(chart.joined(fed(Chart(), WELL, 5)), WELL, 66).faults == {}


readings = st.builds(
    Reading,
    st.just("g0"),
    lost=st.booleans(),
    clock_reasons=st.none() | st.sets(st.sampled_from(("power_cap", "hw_thermal", "power_brake"))).map(tuple),
    ecc_uncorrected=st.none() | st.integers(0, 2),
    nvlinks_active=st.none() | st.integers(10, 12),
    recovery=st.none() | st.sampled_from(("none", "reset")),
)


@given(st.lists(st.tuples(readings, st.floats(0, 30), st.none() | st.sampled_from((13, 79))), max_size=30))
def test_a_fault_has_seen_its_sign_and_is_gone_only_after_it(steps: list[Any]) -> None:
    chart, second = Chart(), 0.0
    for reading, passed_s, xid in steps:
        second += passed_s
        before = chart
        chart = chart.after_reading(reading, KNOWN, at(second))
        for name in chart.faults.keys() - before.faults.keys():
            assert BY_NAME[name].sign(reading, KNOWN)  # type: ignore[misc]
        for name in before.faults.keys() - chart.faults.keys() - {"xid"}:
            assert BY_NAME[name].sign(reading, KNOWN) == ""  # type: ignore[misc]
        if xid:
            chart = chart.after_xid(xid, at(second))
    assert verdict(chart.faults, "", "")[0] is (Health.OUT if chart.faults else Health.OK)


def test_a_fall_of_the_energy_counter_ends_an_xid_and_nothing_else() -> None:
    chart = fed(Chart(), replace(BAD["pages"], energy_j=500.0), 0).after_xid(119, at(1))
    assert chart.faults["xid"].energy_j == 500.0
    assert set(fed(chart, replace(BAD["pages"], energy_j=501.0), 2).faults) == {"pages", "xid"}
    assert set(fed(chart, replace(BAD["pages"], energy_j=3.0), 2).faults) == {"pages"}


def test_the_energy_counter_is_kept_with_an_xid_each_time_it_has_doubled() -> None:
    chart = Chart().after_xid(119, at(0))
    kept = []
    for second in range(1, 10):
        chart = fed(chart, replace(WELL, energy_j=100.0 * second), second)
        kept.append(chart.faults["xid"].energy_j)
    assert kept == [100, 200, 200, 400, 400, 400, 400, 800, 800]


def test_a_reset_between_two_monitors_is_seen() -> None:
    known = [Fault("xid", "Xid 119: ...", 1.0, energy_j=500.0)]
    assert set(recalled(known).joined(fed(Chart(), replace(WELL, energy_j=600.0), 5)).faults) == {"xid"}
    assert set(recalled(known).joined(fed(Chart(), replace(WELL, energy_j=3.0), 5)).faults) == set()
    unread = recalled(known).joined(fed(Chart(), SILENT, 5))
    assert set(fed(unread, replace(WELL, energy_j=3.0), 6).faults) == set()


def test_an_xid_after_the_reset_counts() -> None:
    known = [Fault("xid", "Xid 119: ...", 1.0, energy_j=500.0)]
    newer = fed(Chart(), replace(WELL, energy_j=3.0), 5).after_xid(79, at(5))
    assert recalled(known).joined(newer).faults["xid"].reason.startswith("Xid 79")


def test_rules_that_are_switched_off_are_neither_followed_nor_recalled() -> None:
    rules = in_force(("ecc", "pages"))
    assert not {"ecc", "pages"} & {rule.name for rule in rules}
    assert Chart().after_reading(BAD["ecc"], KNOWN, at(0), rules).faults == {}
    assert recalled(broken("ecc").faults.values(), rules).faults == {}
