from gpuyard.contracts.segment import MAX_ROWS
from gpuyard_logger.core.merge import LARGEST_BYTES, Size
from gpuyard_logger.core.tiering import to_move

NOW_S = 10_000.0
MIB = 1024 * 1024


def moved(*sizes: Size, after_s: float = 100.0, min_bytes: int = 8 * MIB, urgent: bool = False) -> list[str]:
    return to_move(sizes, NOW_S, after_s=after_s, min_bytes=min_bytes, urgent=urgent)


def size(name: str, age_s: float, size_bytes: int, rows: int = 1) -> Size:
    return Size(name, NOW_S - age_s, size_bytes, rows)


def test_full_segments_move_when_they_are_old_enough_the_oldest_first() -> None:
    young, old, older = (
        size("young", 99, LARGEST_BYTES),
        size("old", 100, LARGEST_BYTES),
        size("older", 200, 8 * MIB),
    )
    assert moved(young, old, older) == ["older", "old"]


def test_small_segments_stay_until_they_are_merged() -> None:
    assert moved(size("small", 1000, 8 * MIB - 1)) == []
    assert moved(size("small", 1000, 8 * MIB - 1), min_bytes=0) == ["small"]


def test_a_segment_can_be_full_of_rows() -> None:
    assert moved(size("rows", 1000, 1000, rows=MAX_ROWS)) == ["rows"]


def test_a_disk_short_of_room_gives_the_largest_first() -> None:
    assert moved(size("a", 0, 10), size("b", 0, 30), size("c", 0, 20), urgent=True) == ["b", "c", "a"]
