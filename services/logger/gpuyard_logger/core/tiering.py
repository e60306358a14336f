"""Which segments are to move from the disk to object storage."""

from collections.abc import Iterable

from gpuyard_logger.core.merge import Size


def to_move(
    sizes: Iterable[Size], now_s: float, *, after_s: float, min_bytes: int, urgent: bool
) -> list[str]:
    """Segments to move, in this order.

    Args:
        sizes: All on this disk.
        now_s: The time.
        after_s: How long they stay once they are sealed.
        min_bytes: Smaller ones stay, unless they have as many rows as a full one.
        urgent: The disk is short of room: all go, the largest first.

    """
    if urgent:
        return [size.segment for size in sorted(sizes, key=lambda size: -size.size_bytes)]
    due = [
        size
        for size in sizes
        if now_s - size.sealed_at_s >= after_s and (size.size_bytes >= min_bytes or not size.tier)
    ]
    return [size.segment for size in sorted(due, key=lambda size: size.sealed_at_s)]
