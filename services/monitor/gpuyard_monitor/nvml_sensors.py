"""How one GPU is doing: its instruments.

The cheap part costs six or seven calls. The rest (errors of the memory, ports, PCIe traffic, which
takes the driver 20 ms each way, and programs that draw) changes slowly, and is read when the caller says so.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from gpuyard_monitor.core.readings import CLOCK_REASONS, RECOVERY, RawProcess, Reading, Remapped, merged
from gpuyard_monitor.nvml_driver import Device, Driver, LostError
from gpuyard_monitor.nvml_gpus import MEMORY
from gpuyard_monitor.nvml_links import count_active

_TX, _RX, _RECOVERY = 138, 139, 230
_ALL_PORTS = 0xFFFFFFFF
_NVLINK = ((_TX, _ALL_PORTS), (_RX, _ALL_PORTS))
_TEMPERATURE = (("nvmlDeviceGetTemperatureV", 0), ("nvmlDeviceGetTemperature", 0))
_CLOCKS = (("nvmlDeviceGetCurrentClocksEventReasons",), ("nvmlDeviceGetCurrentClocksThrottleReasons",))
_COMPUTE = (("nvmlDeviceGetComputeRunningProcesses",), ("nvmlDeviceGetComputeRunningProcesses_v2",))
_OTHERS = ("nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses")
_PCIE_TX, _PCIE_RX = 0, 1
_CORRECTED, _UNCORRECTED, _VOLATILE = 0, 1, 0
_PAGE_CAUSES = (0, 1)
_KIB, _KB = 1024, 1000


class Sensors:
    """The instruments of one GPU.

    Args:
        ports: the numbers of its NVLink ports.
        before: its instruments so far; without them, programs that draw are unseen until `examined`.

    """

    def __init__(
        self, driver: Driver, device: Device, ports: tuple[int, ...], before: "Sensors | None" = None
    ) -> None:
        self.uuid = device.uuid
        self._driver = driver
        self._device = device
        self._ports = ports
        self._compute: tuple[RawProcess, ...] | None = None
        self._others: tuple[RawProcess, ...] = before._others if before else ()

    def glance(self) -> Reading:
        """What is cheap. Programs that draw or share through MPS are as of the newest `examined`."""
        try:
            # First, because it also tells whether the GPU is still there.
            memory = self._driver.first(self._device, *MEMORY)
            return self._often(memory and memory.used)
        except LostError:
            return Reading(self.uuid, lost=True)

    def examined(self, reading: Reading) -> Reading:
        """The same look with what is expensive."""
        if reading.lost:
            return reading
        try:
            self._others = self._other_processes()
            return self._seldom(replace(reading, processes=self._processes()))
        except LostError:
            return Reading(self.uuid, lost=True)

    def _often(self, memory_used_bytes: int | None) -> Reading:
        driver, device = self._driver, self._device
        rates = driver.ask(device, "nvmlDeviceGetUtilizationRates")
        milliwatts = driver.ask(device, "nvmlDeviceGetPowerUsage")
        traffic = driver.fields(device, _NVLINK)
        self._compute = _listed(driver.first(device, *_COMPUTE))
        return Reading(
            device.uuid,
            utilisation=rates and min(rates.gpu / 100, 1.0),
            memory_used_bytes=memory_used_bytes,
            power_w=None if milliwatts is None else milliwatts / 1000,
            temperature_c=driver.first(device, *_TEMPERATURE),
            clock_reasons=_names(driver.first(device, *_CLOCKS)),
            processes=self._processes(),
            nvlink_tx_bytes=_times(traffic.get(_TX), _KIB),
            nvlink_rx_bytes=_times(traffic.get(_RX), _KIB),
        )

    def _seldom(self, reading: Reading) -> Reading:
        driver, device = self._driver, self._device
        recovery = driver.fields(device, ((_RECOVERY, 0),)).get(_RECOVERY)
        rows = driver.ask(device, "nvmlDeviceGetRemappedRows")
        millijoules = driver.ask(device, "nvmlDeviceGetTotalEnergyConsumption")
        return replace(
            reading,
            pcie_tx_bytes_s=_times(driver.ask(device, "nvmlDeviceGetPcieThroughput", _PCIE_TX), _KB),
            pcie_rx_bytes_s=_times(driver.ask(device, "nvmlDeviceGetPcieThroughput", _PCIE_RX), _KB),
            ecc_corrected=driver.ask(device, "nvmlDeviceGetTotalEccErrors", _CORRECTED, _VOLATILE),
            ecc_uncorrected=driver.ask(device, "nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE),
            remapped=rows and Remapped(rows[0], rows[1], bool(rows[2]), bool(rows[3])),
            retired_pages=self._retired_pages(),
            nvlinks_active=count_active(driver, device, self._ports),
            recovery=None if recovery is None else RECOVERY.get(recovery, str(recovery)),
            energy_j=None if millijoules is None else millijoules / 1000,
        )

    def _processes(self) -> tuple[RawProcess, ...] | None:
        return None if self._compute is None else merged((*self._compute, *self._others))

    def _other_processes(self) -> tuple[RawProcess, ...]:
        lists = (_listed(self._driver.ask(self._device, name)) for name in _OTHERS)
        return tuple(one for each in lists for one in each or ())

    def _retired_pages(self) -> int | None:
        pages = [self._driver.ask(self._device, "nvmlDeviceGetRetiredPages", cause) for cause in _PAGE_CAUSES]
        known = [len(each) for each in pages if each is not None]
        return sum(known) if known else None


def _listed(found: Iterable[Any] | None) -> tuple[RawProcess, ...] | None:
    return None if found is None else tuple(RawProcess(one.pid, one.usedGpuMemory) for one in found)


def _names(bits: int | None) -> tuple[str, ...] | None:
    return None if bits is None else tuple(name for bit, name in CLOCK_REASONS.items() if bits & bit)


def _times(value: int | None, factor: int) -> int | None:
    return None if value is None else value * factor
