"""Sets of CPUs or NUMA nodes, as the driver gives them (bits) and as people write them (`0-15,32-47`)."""

from collections.abc import Iterable


def members(words: Iterable[int]) -> list[int]:
    """Numbers of the bits that are set, in words of 64 bits, lowest first."""
    return [64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1]


def cpu_list(numbers: Iterable[int]) -> str:
    """Ascending numbers as ranges."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ",".join(f"{first}-{last}" if first < last else str(first) for first, last in ranges)
