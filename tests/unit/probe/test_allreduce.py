from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the `examples` extra is not installed")

from gpuyard.probe import payload  # noqa: E402
from gpuyard.probe.allreduce import WARM_UP, Share, bus_gb_s, measured  # noqa: E402
from gpuyard.probe.effort import Effort  # noqa: E402

CPU = torch.device("cpu")
LITTLE = Effort((1 << 12,), (1 << 12, 1 << 14), 3)
SUMS = 2 * (WARM_UP + 3)


def perfect(data: Any) -> None:
    """The sum over two ranks, as the other would see it too."""
    if len(data) > 1:
        data.copy_(payload.total(2, data.nbytes, CPU))


def not_at_all(_data: Any) -> None:
    pass


def twice_mine(data: Any) -> None:
    data.mul_(2)


def test_right_sums_are_right() -> None:
    share = measured(0, 2, CPU, LITTLE, perfect)
    assert (share.sums, share.wrong) == (SUMS, 0)
    assert len(share.median_s) == 2
    assert min(share.median_s) > 0


@pytest.mark.parametrize("reduce", [not_at_all, twice_mine])
def test_wrong_sums_are_noticed(reduce: Any) -> None:
    assert measured(1, 2, CPU, LITTLE, reduce).wrong == SUMS


def test_bus_bandwidth_is_that_of_nccl_tests() -> None:
    """1 GB in 10 ms is 100 GB/s; over 2 members the bus carries as much, over 4 half as much again."""
    assert bus_gb_s([10**9], [Share((0.01,), 1, 0)] * 2) == pytest.approx(100)
    assert bus_gb_s([10**9], [Share((0.01,), 1, 0)] * 4) == pytest.approx(150)


def test_a_group_is_as_fast_as_its_slowest_member_at_its_best_size() -> None:
    shares = [Share((0.01, 0.1), 1, 0), Share((0.02, 0.05), 1, 0)]
    assert bus_gb_s([10**9, 4 * 10**9], shares) == pytest.approx(50)
