"""How much is copied, and how often. Bandwidth shows in large copies only: small ones measure latency."""

from dataclasses import dataclass

MIB = 1024 * 1024
_BUFFERS = 8
"""Payload, expectation and comparison must fit side by side, with room to spare."""

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Effort:
    """Bytes of each copy and of each all-reduce, smallest first, and timed repeats of each."""

    copy_bytes: Sizes
    reduce_bytes: Sizes
    repeats: int

    def within(self, free_bytes: int) -> "Effort":
        """The part of it that a device with so much free memory can do, at least the smallest size."""
        return Effort(
            _fitting(self.copy_bytes, free_bytes), _fitting(self.reduce_bytes, free_bytes), self.repeats
        )


def _fitting(sizes: Sizes, free_bytes: int) -> Sizes:
    return tuple(size for size in sizes if size * _BUFFERS <= free_bytes) or sizes[:1]


THOROUGH = Effort((16 * MIB, 64 * MIB, 256 * MIB), (64 * MIB, 256 * MIB, 1024 * MIB), 8)
QUICK = Effort((64 * MIB,), (256 * MIB,), 3)
SMALL = Effort((MIB, 4 * MIB), (MIB, 4 * MIB), 3)
"""For memory of the host, which stands in for GPUs where the program itself is tested."""
