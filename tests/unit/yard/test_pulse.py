import pytest

from gpuyard.yard.pulse import MOST_MISSES, Pulse, after_look

WELL, SILENT, STUCK = Pulse.WELL, Pulse.SILENT, Pulse.STUCK


def killed_at(*pulses: Pulse, has_room: bool = True) -> int | None:
    """Which look, counted from 1, gives the server up; None if none does."""
    misses = 0
    for number, pulse in enumerate(pulses, start=1):
        misses, must_kill = after_look(misses, pulse, has_room=has_room)
        if must_kill:
            return number
    return None


@pytest.mark.parametrize(
    ("pulses", "look"),
    [
        ([WELL] * 9, None),
        ([SILENT] * 3, 3),
        ([STUCK] * 3, 3),
        ([SILENT, STUCK, SILENT], 3),
        ([SILENT, SILENT, WELL, SILENT, SILENT, WELL], None),
        ([SILENT, SILENT, WELL, STUCK, STUCK, STUCK], 6),
    ],
)
def test_three_misses_in_a_row_are_enough(pulses: list[Pulse], look: int | None) -> None:
    assert killed_at(*pulses) == look


def test_on_a_full_disk_a_stuck_server_stays_but_a_silent_one_does_not() -> None:
    assert killed_at(*[STUCK] * 100, has_room=False) is None
    assert killed_at(*[SILENT] * 3, has_room=False) == 3


def test_a_stuck_server_goes_as_soon_as_there_is_room() -> None:
    assert after_look(50, STUCK, has_room=True) == (51, True)
    assert MOST_MISSES == 3
