from pathlib import Path

import pytest

from gpuyard.topology import captures
from tests.unit.monitor import fake_nvml
from tests.unit.monitor.fake_nvml import FakeDriver
from tests.unit.monitor.machines import Yard


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """This process's NVIDIA driver, a stand-in with four GPUs."""
    if fake_nvml.compiler() is None:
        pytest.skip("needs a C compiler")
    driver = FakeDriver.at(tmp_path)
    driver.install(4)
    driver.plug_into(monkeypatch)
    return driver


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Eight A100 behind switches."""
    if fake_nvml.compiler() is None:
        pytest.skip("needs a C compiler")
    driver = FakeDriver.of(captures.load("aws-p4d-a100-8gpu"), tmp_path)
    driver.plug_into(monkeypatch)
    return driver


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "root")
