"""The driver's start, its events and its age, on the real binding over a stand-in for the driver."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuyard.contracts.errors import Unavailable
from gpuyard_monitor.core.readings import DriverChanged, Xid
from gpuyard_monitor.nvml import Nvml
from tests.unit.monitor import fake_nvml
from tests.unit.monitor.fake_nvml import FakeDriver, uuid

NOWHERE = Path("/nonexistent")
CHANGED = 18


@pytest.fixture
def nvml(driver: FakeDriver) -> Nvml:
    nvml = Nvml(NOWHERE)
    nvml.find()
    return nvml


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        (4, "may not talk", "/dev/nvidiactl"),
        (9, "is not loaded", "modprobe nvidia"),
        (12, "is not installed", "Install the NVIDIA driver"),
        (15, "fell off the bus", "Reboot"),
        (18, "changed under the running system", "Restart the monitor"),
        (999, "unknown error", "restart it"),
        (17, "does not start: ", "nvidia-smi"),
    ],
)
def test_a_start_that_fails_says_why_and_what_to_do(
    driver: FakeDriver, code: int, message: str, hint: str
) -> None:
    driver.init_code = code
    with pytest.raises(Unavailable, match=message) as failure:
        Nvml()
    assert hint in failure.value.hint
    driver.init_code = 0
    assert len(Nvml(NOWHERE).find().gpus) == 4


def test_a_library_that_is_not_there(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pynvml.nvmlLib", None)
    monkeypatch.setattr("pynvml.CDLL", _no_such_file)
    with pytest.raises(Unavailable, match=r"libnvidia-ml\.so\.1 is not installed"):
        Nvml()


def _no_such_file(name: str) -> None:
    raise OSError(name)


def test_without_the_binding_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Unavailable, match="nvidia-ml-py is missing"):
        Nvml()


@pytest.mark.parametrize("ask", [Nvml.find, Nvml.read, Nvml.xids, Nvml.driver])
def test_a_driver_changed_under_the_monitor_is_told_by_every_question(
    driver: FakeDriver, nvml: Nvml, ask: object
) -> None:
    driver.version_code = CHANGED
    with pytest.raises(DriverChanged, match="changed under the running system"):
        ask(nvml)  # type: ignore[operator]


def test_the_driver_is_started_once_and_kept(driver: FakeDriver, nvml: Nvml) -> None:
    for _ in range(3):
        nvml.find()
        nvml.read(paced=True)
    assert driver.asked("nvmlInitWithFlags") == 1
    nvml.close()


@pytest.mark.parametrize(
    ("without", "instead"),
    [
        ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"),
        ("nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"),
        ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"),
    ],
)
def test_an_old_library_is_asked_in_its_own_words(
    driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str, instead: str
) -> None:
    driver.gpus[1].run(41)
    driver.plug_into(monkeypatch, fake_nvml.build(tmp_path, without=[without]))
    nvml = Nvml(NOWHERE)
    nvml.find()
    reading = nvml.read()[1]
    assert driver.asked(instead)
    assert reading.temperature_c == 31
    assert reading.memory_used_bytes
    assert reading.clock_reasons == ()
    assert [one.pid for one in reading.processes or ()] == [41]


def test_a_very_old_library_still_names_its_gpus(
    driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = [
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlDeviceGetNvLinkRemoteDeviceType",
        "nvmlDeviceGetMemoryAffinity",
        "nvmlDeviceGetP2PStatus",
        "nvmlEventSetCreate",
    ]
    driver.join(0, 1, 2)
    driver.plug_into(monkeypatch, fake_nvml.build(tmp_path, without=newer))
    nvml = Nvml(NOWHERE)
    found = nvml.find()
    assert [gpu.nvlinks for gpu in found.gpus] == [2, 2, None, None]
    assert found.links[0].label == "NV2"
    assert [reading.lost for reading in nvml.read(paced=True)] == [False] * 4
    assert nvml.xids() == ()


def test_xids_are_told_once_with_their_gpu(driver: FakeDriver, nvml: Nvml) -> None:
    assert nvml.xids() == ()
    driver.xid(2, 79)
    driver.xid(0, 31)
    driver.xid(-1, 62)
    assert nvml.xids() == (Xid(uuid(2), 79), Xid(uuid(0), 31), Xid(None, 62))
    assert nvml.xids() == ()


def test_xids_of_a_gpu_that_knows_no_events_do_not_make_it_sick(driver: FakeDriver) -> None:
    driver.gpus[1].refuse("nvmlDeviceRegisterEvents")
    nvml = Nvml(NOWHERE)
    assert len(nvml.find().gpus) == 4
    driver.xid(1, 79)
    driver.xid(2, 48)
    assert nvml.xids() == (Xid(uuid(2), 48),)
    assert not nvml.read()[1].lost


def test_a_lost_gpu_does_not_silence_the_others(driver: FakeDriver, nvml: Nvml) -> None:
    driver.xid(1, 79)
    driver.gpus[1].lost = True
    assert nvml.xids() == (Xid(uuid(1), 79),)
    driver.xid(2, 48)
    assert nvml.xids() == (Xid(uuid(2), 48),)


def test_no_xid_is_lost_when_the_gpus_change(driver: FakeDriver, nvml: Nvml) -> None:
    driver.xid(3, 79)
    driver.count = 3
    nvml.find()
    driver.xid(0, 48)
    assert nvml.xids() == (Xid(uuid(3), 79), Xid(uuid(0), 48))
    driver.count = 4
    nvml.find()
    driver.xid(3, 31)
    assert nvml.xids() == (Xid(uuid(3), 31),)


def test_the_event_set_is_made_once(driver: FakeDriver, nvml: Nvml) -> None:
    nvml.find()
    nvml.find()
    assert driver.asked("nvmlEventSetCreate") == 1
    assert driver.asked("nvmlDeviceRegisterEvents") == 4


def test_a_flood_of_xids_comes_in_parts(driver: FakeDriver, nvml: Nvml) -> None:
    for _ in range(600):
        driver.xid(0, 13)
    parts = [len(nvml.xids()) for _ in range(4)]
    assert sum(parts) == 600
    assert parts[0] < 600


def test_a_slow_driver_is_waited_for(driver: FakeDriver, nvml: Nvml) -> None:
    driver.slow_function, driver.slow_ms = b"nvmlDeviceGetPowerUsage", 5
    began_s = time.monotonic()
    assert [reading.power_w for reading in nvml.read()] == [100.5, 100.501, 100.502, 100.503]
    assert time.monotonic() - began_s >= 4 * 0.005


def test_another_process_sees_the_same_driver(driver: FakeDriver) -> None:
    """The binding finds the library as it finds the real one: through the dynamic loader."""
    driver.gpus[3].lost = True
    driver.xid(0, 48)
    code = (
        "import json; from gpuyard_monitor.nvml import Nvml\n"
        "nvml = Nvml(); found = nvml.find()\n"
        "print(json.dumps([nvml.driver(), found.missing, len(nvml.read()), nvml.xids()[0].number]))"
    )
    environment = os.environ | driver.environment()
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert json.loads(told.stdout) == ["580.1", 1, 3, 48]
