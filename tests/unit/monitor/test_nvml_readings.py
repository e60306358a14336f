"""How GPUs are doing, on the real binding over a stand-in for the driver."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.topology import captures
from gpuyard_monitor.core.readings import RawProcess, Reading, Remapped, merged
from gpuyard_monitor.nvml import Nvml
from tests.unit.monitor import fake_nvml
from tests.unit.monitor.fake_nvml import GIB, GRAPHICS, MPS, FakeDriver, uuid

SENSORS = (
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetFieldValues",
)
COSTLY = (
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRetiredPages",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
)


@pytest.fixture
def nvml(driver: FakeDriver) -> Nvml:
    driver.join(0, 1, 2)
    nvml = Nvml(Path("/nonexistent"))
    nvml.find()
    return nvml


def test_a_reading(driver: FakeDriver, nvml: Nvml) -> None:
    gpu = driver.gpus[1]
    gpu.clock_reasons, gpu.nvlink_tx_kib, gpu.nvlink_rx_kib = 0x81 | 0x20, 3, 5
    gpu.run(41, 2 * GIB)
    assert nvml.read()[1] == Reading(
        uuid(1),
        utilisation=0.1,
        memory_used_bytes=GIB,
        power_w=100.501,
        temperature_c=31,
        clock_reasons=("sw_thermal", "power_brake"),
        processes=(RawProcess(41, 2 * GIB),),
        nvlink_tx_bytes=3 * 1024,
        nvlink_rx_bytes=5 * 1024,
    )


def test_an_idle_gpu_reads_zero_and_not_unknown(driver: FakeDriver, nvml: Nvml) -> None:
    reading = nvml.read()[0]
    assert (reading.utilisation, reading.memory_used_bytes) == (0.0, 0)
    assert (reading.clock_reasons, reading.processes, reading.nvlink_tx_bytes) == ((), (), 0)


def test_a_paced_reading(driver: FakeDriver, nvml: Nvml) -> None:
    gpu = driver.gpus[1]
    gpu.pcie_tx_kb_s, gpu.pcie_rx_kb_s = 7, 9
    gpu.ecc_corrected, gpu.ecc_uncorrected, gpu.retired_pages, gpu.recovery = 5, 2, 3, 4
    gpu.remapped[0], gpu.remapped[1], gpu.remapped[3] = 1, 2, 1
    gpu.ports[1].up, gpu.energy_mj = False, 8_250_500
    reading = nvml.read(paced=True)[1]
    assert (reading.pcie_tx_bytes_s, reading.pcie_rx_bytes_s) == (7000, 9000)
    assert (reading.ecc_corrected, reading.ecc_uncorrected, reading.retired_pages) == (5, 2, 3)
    assert reading.remapped == Remapped(1, 2, pending=False, failed=True)
    assert (reading.nvlinks_active, reading.recovery) == (1, "drain_reset")
    assert reading.energy_j == 8250.5
    assert reading.power_w == 100.501


def test_a_recovery_action_that_came_after_this_was_written(driver: FakeDriver, nvml: Nvml) -> None:
    driver.gpus[0].recovery = 42
    assert nvml.read(paced=True)[0].recovery == "42"


def test_errors_of_the_memory_climb(driver: FakeDriver, nvml: Nvml) -> None:
    seen = []
    for _ in range(3):
        driver.gpus[2].ecc_uncorrected += 2
        seen.append(nvml.read(paced=True)[2].ecc_uncorrected)
    assert seen == [2, 4, 6]


def test_what_is_costly_is_not_read_each_time(driver: FakeDriver, nvml: Nvml) -> None:
    before = [driver.asked(name) for name in COSTLY]
    reading = nvml.read()[0]
    assert [driver.asked(name) for name in COSTLY] == before
    assert (reading.ecc_corrected, reading.remapped, reading.nvlinks_active) == (None, None, None)
    nvml.read(paced=True)
    assert all(driver.asked(name) > count for name, count in zip(COSTLY, before, strict=True))


@pytest.mark.parametrize("code", [fake_nvml.NOT_SUPPORTED, fake_nvml.NO_PERMISSION, fake_nvml.UNKNOWN])
def test_what_is_not_told_is_unknown(driver: FakeDriver, nvml: Nvml, code: int) -> None:
    driver.gpus[1].refuse(*SENSORS, code=code)
    assert nvml.read()[1] == Reading(uuid(1), memory_used_bytes=GIB)
    assert nvml.read()[2].utilisation == 0.2


def test_costly_values_that_are_not_told_are_unknown(driver: FakeDriver, nvml: Nvml) -> None:
    driver.gpus[3].refuse(*COSTLY, "nvmlDeviceGetFieldValues")
    reading = nvml.read(paced=True)[3]
    assert reading == nvml.read()[3]
    assert reading.processes == ()


def test_what_is_not_supported_is_asked_once(driver: FakeDriver, nvml: Nvml) -> None:
    driver.gpus[1].refuse("nvmlDeviceGetPowerUsage")
    before = driver.asked("nvmlDeviceGetPowerUsage")
    for _ in range(5):
        nvml.read()
    assert driver.asked("nvmlDeviceGetPowerUsage") == before + 5 * 3 + 1


def test_a_passing_failure_is_asked_again(driver: FakeDriver, nvml: Nvml) -> None:
    driver.gpus[1].refuse("nvmlDeviceGetPowerUsage", code=fake_nvml.UNKNOWN)
    assert nvml.read()[1].power_w is None
    driver.gpus[1].refuse("nvmlDeviceGetPowerUsage", code=0)
    assert nvml.read()[1].power_w == 100.501


def test_a_gpu_without_nvlink_is_not_asked_for_its_traffic(driver: FakeDriver, nvml: Nvml) -> None:
    assert [reading.nvlink_tx_bytes for reading in nvml.read()] == [0, 0, None, None]
    before = driver.asked("nvmlDeviceGetFieldValues")
    nvml.read()
    assert driver.asked("nvmlDeviceGetFieldValues") == before + 2


def test_a_process_in_several_lists_is_one(driver: FakeDriver, nvml: Nvml) -> None:
    gpu = driver.gpus[0]
    gpu.run(41, GIB)
    gpu.run(41, 2 * GIB, GRAPHICS)
    gpu.run(40, GIB, GRAPHICS)
    gpu.run(43, GIB, MPS)
    known = (RawProcess(40, GIB), RawProcess(41, 2 * GIB), RawProcess(43, GIB))
    assert [one.pid for one in nvml.read()[0].processes or ()] == [41]
    assert nvml.read(paced=True)[0].processes == known
    assert nvml.read()[0].processes == known
    gpu.stop(43)
    gpu.stop(40)
    gpu.stop(41)
    assert nvml.read(paced=True)[0].processes == ()


def test_programs_that_draw_stay_seen_when_the_gpus_are_found_anew(driver: FakeDriver, nvml: Nvml) -> None:
    driver.gpus[0].run(40, GIB, GRAPHICS)
    nvml.read(paced=True)
    nvml.find()
    assert nvml.read()[0].processes == (RawProcess(40, GIB),)
    driver.gpus[0].stop(40)
    assert nvml.read(paced=True)[0].processes == ()


def test_memory_of_a_process_that_the_driver_does_not_tell(driver: FakeDriver, nvml: Nvml) -> None:
    driver.gpus[0].run(41, 2**64 - 1)
    assert nvml.read()[0].processes == (RawProcess(41, None),)


@pytest.mark.parametrize("code", [fake_nvml.LOST, fake_nvml.UNKNOWN])
def test_a_lost_gpu_is_lost_and_the_others_are_not(driver: FakeDriver, nvml: Nvml, code: int) -> None:
    driver.gpus[1].lost, driver.gpus[1].lost_code = True, code
    readings = nvml.read(paced=True)
    assert readings[1] == Reading(uuid(1), lost=True)
    assert [reading.lost for reading in readings] == [False, True, False, False]
    assert readings[2].utilisation == 0.2
    before = driver.calls
    nvml.read()
    assert driver.calls - before <= 3 * 7 + 1
    driver.gpus[1].lost = False
    assert nvml.read()[1].utilisation == 0.1


@pytest.mark.parametrize("calls", range(30))
def test_a_gpu_lost_in_the_middle_of_a_reading(driver: FakeDriver, nvml: Nvml, calls: int) -> None:
    driver.gpus[1].calls_to_live = calls
    readings = [*nvml.read(paced=True), *nvml.read(paced=True)]
    assert readings[5] == Reading(uuid(1), lost=True)
    assert not any(reading.lost for at, reading in enumerate(readings) if at % 4 != 1)


def test_a_round_for_eight_gpus_is_cheap(
    driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eight = FakeDriver.of(captures.load("dgx-h100-8gpu-10hca"), tmp_path)
    eight.plug_into(monkeypatch)
    nvml = Nvml(tmp_path)
    nvml.find()
    ours, before = nvml.calls, eight.calls
    nvml.read()
    assert nvml.calls - ours == eight.calls - before == 8 * 7
    for index in range(8):
        eight.gpus[index].run(41)
    before = eight.calls
    nvml.read()
    assert eight.calls - before == 8 * 8
    assert nvml.calls - ours == 2 * 8 * 7


@given(st.lists(st.builds(RawProcess, st.integers(0, 5), st.none() | st.integers(0, 9)), max_size=12))
def test_merging_keeps_each_process_once_and_its_largest_memory(processes: list[RawProcess]) -> None:
    once = merged(processes)
    assert [one.pid for one in once] == sorted({one.pid for one in processes})
    for one in once:
        known = [each.memory_bytes for each in processes if each.pid == one.pid]
        assert one.memory_bytes == max((each for each in known if each is not None), default=None)
    assert merged(once) == once
