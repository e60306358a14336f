import pytest

from gpuyard.probe.effort import MIB, QUICK, THOROUGH
from gpuyard.probe.report import rounded


@pytest.mark.parametrize(
    ("free_mib", "largest_mib"), [(80 * 1024, 1024), (4 * 1024, 256), (1024, 64), (10, 64)]
)
def test_payloads_fit_into_free_memory(free_mib: int, largest_mib: int) -> None:
    assert max(THOROUGH.within(free_mib * MIB).reduce_bytes) == largest_mib * MIB


def test_the_smallest_size_is_always_tried() -> None:
    assert QUICK.within(0) == QUICK
    assert THOROUGH.within(0).copy_bytes == (16 * MIB,)


@pytest.mark.parametrize(
    ("measured", "told"), [(376.24371, 376.2), (9.61234, 9.612), (0.000123456, 0.0001235), (0.0, 0.0)]
)
def test_a_figure_has_the_digits_that_were_measured(measured: float, told: float) -> None:
    assert rounded(measured) == told
