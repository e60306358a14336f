"""What an engine says of itself, and how GPUs are given."""

from typing import Any

import pytest

from gpuyard.contracts.container_engine import GpuAccess, choose_gpu_access, parse_info

PLAIN: dict[str, Any] = {"ServerVersion": "28.2.2", "Runtimes": {"runc": {}}, "LiveRestoreEnabled": True}
CDI = {"DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=GPU-a"}, {"ID": "other.com/x=1"}]}


@pytest.mark.parametrize(
    ("more", "access"),
    [
        ({}, GpuAccess.REQUEST),
        ({"Runtimes": {"runc": {}, "nvidia": {}}}, GpuAccess.RUNTIME),
        (CDI, GpuAccess.CDI),
        ({"Runtimes": {"nvidia": {}}, **CDI}, GpuAccess.CDI),
        ({"DiscoveredDevices": None}, GpuAccess.REQUEST),
    ],
)
def test_the_best_way_is_chosen(more: dict[str, Any], access: GpuAccess) -> None:
    assert choose_gpu_access(parse_info(PLAIN | more))[0] is access


def test_what_is_read() -> None:
    info = parse_info(PLAIN | CDI | {"MemTotal": 1 << 30})
    assert (info.version, info.has_live_restore, info.memory_bytes) == ("28.2.2", True, 1 << 30)
    assert info.cdi_gpus == ("GPU-a",)


def test_an_old_engine_says_less() -> None:
    info = parse_info({"ServerVersion": "19.03.1"})
    assert (info.has_live_restore, info.runtimes, info.memory_bytes) == (False, (), None)
