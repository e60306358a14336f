"""Which devices take part in an all-reduce of each size."""

from collections.abc import Mapping

Rates = Mapping[tuple[int, int], float]
"""GB/s of pairs of devices `a < b`."""


def sizes(count: int) -> list[int]:
    """2, 4, 8 ... and all of them."""
    doubled = [1 << power for power in range(1, count.bit_length())]
    return doubled if doubled and doubled[-1] == count else [*doubled, count]


def growing(count: int, rates: Rates) -> list[int]:
    """An order whose first devices are well linked: the fastest pair, then who has the best slowest link."""
    fastest = max(sorted(rates), key=lambda pair: rates[pair])
    order = list(fastest)
    while len(order) < count:
        left = [device for device in range(count) if device not in order]
        order.append(max(left, key=lambda device: min(_rate(rates, device, other) for other in order)))
    return order


def _rate(rates: Rates, a: int, b: int) -> float:
    return rates[min(a, b), max(a, b)]
