from hypothesis import given
from hypothesis import strategies as st

from gpuyard_monitor.core.cpu_list import cpu_list, members


def test_bits_are_numbered_over_all_words() -> None:
    assert members([0b101, 0, 1 << 63]) == [0, 2, 191]
    assert members([]) == []


def test_numbers_become_ranges() -> None:
    assert cpu_list([0, 1, 2, 5, 8, 9]) == "0-2,5,8-9"
    assert cpu_list([]) == ""


@given(st.sets(st.integers(0, 255)))
def test_a_list_names_exactly_its_numbers(numbers: set[int]) -> None:
    ranges = [part.partition("-") for part in cpu_list(sorted(numbers)).split(",") if part]
    assert {n for first, _, last in ranges for n in range(int(first), int(last or first) + 1)} == numbers
