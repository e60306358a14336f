import ctypes
from pathlib import Path
from typing import Any

import pytest

from gpuyard.yard import machine
from gpuyard.yard.check import Status
from gpuyard.yard.doctor import judge_clock
from gpuyard.yard.machine import (
    COMFORTABLE_FREE_BYTES,
    disk,
    examine_machine,
    gpu_count,
    judge_disk,
    judge_nvml,
    kernel,
    nats_server,
    nvidia,
    open_files,
)


def test_each_finding_that_is_not_fine_comes_with_a_fix(tmp_path: Path) -> None:
    checks = list(examine_machine(tmp_path))
    assert {check.name for check in checks} >= {
        "nats-server",
        "disk",
        "open files",
        "kernel",
        "docker",
        "torch",
    }
    assert all(bool(check.fix) == (check.status is not Status.OK) for check in checks)


def test_a_missing_server_fails() -> None:
    assert nats_server("/no/such").status is Status.FAIL


@pytest.mark.parametrize(
    ("free_bytes", "status"),
    [(0, Status.FAIL), (1 << 30, Status.WARN), (COMFORTABLE_FREE_BYTES, Status.OK)],
)
def test_room_on_the_disk(free_bytes: int, status: Status) -> None:
    assert judge_disk(Path("/y"), free_bytes).status is status


def test_the_disk_of_a_directory_that_is_not_there_yet(tmp_path: Path) -> None:
    assert str(tmp_path) in disk(tmp_path / "not" / "yet").message


@pytest.mark.parametrize(("limits", "status"), [((256, 512), Status.FAIL), ((256, 4096), Status.OK)])
def test_open_files(limits: tuple[int, int], status: Status) -> None:
    assert open_files(*limits).status is status


def test_this_kernel_will_do() -> None:
    assert kernel().status is Status.OK


def test_a_kernel_that_lacks_something_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_can_reap", lambda: False)
    assert "subreapers" in kernel().message


class _Nvml:
    """Stands in for libnvidia-ml.so.1."""

    def __init__(self, code: int) -> None:
        self._code = code

    def nvmlInit_v2(self) -> int:
        return self._code

    def nvmlSystemGetDriverVersion(self, text: ctypes.Array[ctypes.c_char], size: int) -> int:
        text.value = b"580.1"[:size]
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 8
        return 0

    def nvmlShutdown(self) -> int:
        return 0


@pytest.mark.parametrize(("code", "status", "count"), [(0, Status.OK, 8), (9, Status.FAIL, 0)])
def test_the_driver_is_asked(monkeypatch: pytest.MonkeyPatch, code: int, status: Status, count: int) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: _Nvml(code))
    assert nvidia().status is status
    assert gpu_count() == count


def test_without_a_driver_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    assert nvidia().status is Status.WARN
    assert gpu_count() == 0


def test_nvml_that_fails_is_a_failure() -> None:
    assert judge_nvml(999, "", 0).status is Status.FAIL
    assert "driver 580.1, 8 GPUs" in judge_nvml(0, "580.1", 8).message


@pytest.mark.parametrize(
    ("ahead_s", "words"), [(0.2, "agrees"), (-0.9, "agrees"), (3.0, "3.0 s ahead"), (-3.0, "3.0 s behind")]
)
def test_clocks_are_compared(ahead_s: float, words: str) -> None:
    check = judge_clock(ahead_s)
    assert words in check.message
    assert (check.status is Status.OK) == (abs(ahead_s) < 1)
