from pathlib import Path

import pytest

from tests.unit.monitor import fake_nvml
from tests.unit.monitor.fake_nvml import FakeDriver


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """This process's NVIDIA driver, a stand-in with four GPUs."""
    if fake_nvml.compiler() is None:
        pytest.skip("needs a C compiler")
    driver = FakeDriver.at(tmp_path)
    driver.install(4)
    driver.plug_into(monkeypatch)
    return driver
