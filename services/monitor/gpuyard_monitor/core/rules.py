"""The health rules: what takes one GPU out of service, and what brings it back.

A table, so that the documentation shows what the code does. A rule looks at one reading and answers with
what is wrong, with nothing if all is well, or with None where the driver does not tell this time; how long
either must last before it counts is part of the rule.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from gpuyard_monitor.core.readings import Reading

RESTING_S = 60.0
"""A GPU that comes and goes is not well: it must be well for so long."""
_MOST_RETIRED_PAGES = 60
_THERMAL = frozenset({"hw_thermal", "sw_thermal"})
_RECOVERY = {
    "reset": "a reset of the GPU",
    "reboot": "a reboot of the machine",
    "drain": "that its work ends",
    "drain_reset": "that its work ends, then a reset of the GPU",
    "bus_reset": "a reset of the bus",
    "machine_reboot": "a reboot of the machine",
}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a GPU besides a reading."""

    nvlinks: int | None = None
    """How many should be up."""
    mig: bool | None = None


Sign = Callable[[Reading, Known], str | None]


def _lost(reading: Reading, _: Known) -> str | None:
    return "fell off the bus" if reading.lost else ""


def _ecc(reading: Reading, _: Known) -> str | None:
    if reading.ecc_uncorrected is None:
        return None
    return "memory errors that could not be corrected" if reading.ecc_uncorrected else ""


def _rows_failed(reading: Reading, _: Known) -> str | None:
    if reading.remapped is None:
        return None
    return "a memory row could not be replaced" if reading.remapped.failed else ""


def _rows_pending(reading: Reading, _: Known) -> str | None:
    if reading.remapped is None:
        return None
    return "a memory row waits to be replaced" if reading.remapped.pending else ""


def _pages(reading: Reading, _: Known) -> str | None:
    if reading.retired_pages is None:
        return None
    return (
        f"{reading.retired_pages} memory pages retired"
        if reading.retired_pages >= _MOST_RETIRED_PAGES
        else ""
    )


def _nvlink(reading: Reading, known: Known) -> str | None:
    if reading.nvlinks_active is None or known.nvlinks is None:
        return None
    is_short = reading.nvlinks_active < known.nvlinks
    return f"{reading.nvlinks_active} of {known.nvlinks} NVLinks are up" if is_short else ""


def _thermal(reading: Reading, _: Known) -> str | None:
    if reading.clock_reasons is None:
        return None
    return "so hot that its clocks are held down" if _THERMAL.intersection(reading.clock_reasons) else ""


def _power_brake(reading: Reading, _: Known) -> str | None:
    if reading.clock_reasons is None:
        return None
    return "the power supply holds its clocks down" if "power_brake" in reading.clock_reasons else ""


def _recovery(reading: Reading, _: Known) -> str | None:
    if reading.recovery is None:
        return None
    if reading.recovery == "none":
        return ""
    return f"the driver asks for {_RECOVERY.get(reading.recovery, reading.recovery)}"


def _mig(_: Reading, known: Known) -> str | None:
    if known.mig is None:
        return None
    return "MIG mode is on, and Gpuyard hands out whole GPUs" if known.mig else ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One reason to be out of service."""

    name: str
    sets: str
    clears: str
    remedy: str
    sign: Sign | None = None
    """None: it comes from events, not from readings."""
    after_s: float = 0.0
    """How long the sign must last."""
    clear_after_s: float = 0.0
    """How long it must be gone."""
    ends_with_reset: bool = False
    """Nothing but a reset of the GPU ends it: if it ends, the GPU was reset."""


RULES = (
    Rule(
        "lost",
        "NVML says that the GPU is lost, or no longer lists it since the machine booted",
        "it has answered for 60 s, or the machine boots anew",
        "reset the GPU with the monitor stopped, or reboot the machine",
        _lost,
        clear_after_s=RESTING_S,
        ends_with_reset=True,
    ),
    Rule(
        "xid",
        "the driver reports a hardware Xid of the list below",
        "the machine boots anew, another driver is loaded, or the GPU was reset: its energy counter falls "
        "(Volta and later), or a fault ends that only a reset ends (`lost`, `ecc`, `rows_pending`, "
        "`recovery`)",
        "reset the GPU with the monitor stopped, or reboot the machine",
    ),
    Rule(
        "ecc",
        "the count of uncorrected memory errors since the driver was loaded is above 0",
        "the count is 0 again, as it is after a reset of the GPU",
        "reset the GPU",
        _ecc,
        ends_with_reset=True,
    ),
    Rule(
        "rows_failed",
        "a memory row could not be replaced by a spare one",
        "the driver no longer says so",
        "have the GPU replaced",
        _rows_failed,
    ),
    Rule(
        "rows_pending",
        "a memory row is to be replaced at the next reset",
        "it was replaced",
        "reset the GPU",
        _rows_pending,
        ends_with_reset=True,
    ),
    Rule(
        "pages",
        f"{_MOST_RETIRED_PAGES} memory pages or more are retired (GPUs before Ampere)",
        "the driver counts fewer",
        "have the GPU replaced",
        _pages,
    ),
    Rule(
        "nvlink",
        "for 3 s fewer NVLinks are up than were seen on this GPU since the boot, or than its model has "
        "(where the board wires them all)",
        "all have been up for 60 s",
        "look at `nvidia-smi nvlink -s` and the fabric manager; reset the GPU",
        _nvlink,
        after_s=3.0,
        clear_after_s=RESTING_S,
    ),
    Rule(
        "thermal",
        "for 7 s heat holds its clocks down",
        "heat has not held them down for 60 s",
        "look at the fans and the air flow",
        _thermal,
        after_s=7.0,
        clear_after_s=RESTING_S,
    ),
    Rule(
        "power_brake",
        "for 7 s the power supply holds its clocks down",
        "it has not held them down for 60 s",
        "look at the power supplies",
        _power_brake,
        after_s=7.0,
        clear_after_s=RESTING_S,
    ),
    Rule(
        "recovery",
        "the driver asks for a reset, a reboot or a drain",
        "the driver asks for nothing",
        "do it",
        _recovery,
        ends_with_reset=True,
    ),
    Rule(
        "mig",
        "MIG mode is on (looked at once a minute)",
        "MIG mode is off",
        "`nvidia-smi -mig 0`",
        _mig,
    ),
)

BY_NAME = {rule.name: rule for rule in RULES}
IGNORABLE = tuple(name for name in BY_NAME if name != "lost")
"""Rules that can be switched off: what does not answer can't be in service."""


def in_force(ignored: Collection[str]) -> tuple[Rule, ...]:
    """The rules without those that are switched off."""
    return tuple(rule for rule in RULES if rule.name not in ignored)
