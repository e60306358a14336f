"""The machine's NVIDIA GPUs: what they are, how they are joined, how they are doing, what befell them.

One question without an answer costs one value, one GPU that fell off the bus costs that GPU, a missing
driver costs all GPUs and nothing else. Every method may block: call from a thread, one at a time.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.hardware import Gpu
from gpuyard.topology.gpu_models import GpuModel, model_in
from gpuyard.topology.link_speed import described
from gpuyard_monitor import host
from gpuyard_monitor.core.nvlinks import Ports
from gpuyard_monitor.core.readings import Found, Reading, Xid
from gpuyard_monitor.nics import read_nics
from gpuyard_monitor.nvml_driver import Device, Driver, LostError
from gpuyard_monitor.nvml_gpus import describe
from gpuyard_monitor.nvml_links import read_generation, read_links, read_ports
from gpuyard_monitor.nvml_sensors import Sensors
from gpuyard_monitor.nvml_xids import Xids


class Nvml:
    """The GPUs that the driver shows to this process.

    Raises:
        Unavailable: there is no pynvml, no library, or no driver that answers. Every method raises
            `DriverChanged` if the driver was replaced meanwhile.

    """

    def __init__(self, root: Path = host.ROOT) -> None:
        self._driver = Driver()
        self._root = root
        self._sensors: tuple[Sensors, ...] = ()
        self._xids = Xids(self._driver)

    @property
    def calls(self) -> int:
        """Questions that reached the driver since the start."""
        return self._driver.calls

    def driver(self) -> str:
        """Version of the driver; empty if it does not tell."""
        return self._driver.call("nvmlSystemGetDriverVersion") or ""

    def find(self) -> Found:
        """Look for GPUs anew.

        Raises:
            Unavailable: the driver does not tell how many there are.

        """
        count = self._driver.call("nvmlDeviceGetCount")
        if count is None:
            raise Unavailable("the NVIDIA driver does not tell how many GPUs there are", "See `nvidia-smi`.")
        named = [device for device in map(self._driver.device, range(count)) if device]
        found = [each for each in map(self._described, named) if each]
        devices, gpus, ports = zip(*found, strict=True) if found else ((), (), ())
        self._equip(zip(devices, ports, strict=True))
        self._xids.watch(devices)
        return Found(
            gpus=gpus,
            links=described(read_links(self._driver, devices, ports), [self._model(*each) for each in found]),
            nics=read_nics([gpu.bus_id for gpu in gpus], self._root),
            missing=count - len(gpus),
            count=count,
        )

    def read(self, paced: bool = False) -> tuple[Reading, ...]:
        """One look at each GPU found; `paced` also reads what is expensive and changes slowly."""
        # All cheap ones first: traffic is counted from look to look, and the others may take a second.
        glances = tuple(sensors.glance() for sensors in self._sensors)
        if not paced:
            return glances
        return tuple(
            sensors.examined(reading) for sensors, reading in zip(self._sensors, glances, strict=True)
        )

    def xids(self) -> tuple[Xid, ...]:
        """Errors that the driver reported since the last call. Never waits."""
        return self._xids.drain()

    def close(self) -> None:
        self._driver.close()

    def _equip(self, found: Iterable[tuple[Device, Ports]]) -> None:
        """Sensors for what was found now. What was seldom read of a GPU stands until it is read again."""
        before = {sensors.uuid: sensors for sensors in self._sensors}
        self._sensors = tuple(
            Sensors(self._driver, device, ports.numbers, before.get(device.uuid)) for device, ports in found
        )

    def _described(self, device: Device) -> tuple[Device, Gpu, Ports] | None:
        ports = read_ports(self._driver, device)
        try:
            near = host.read_affinity(device.bus_id, self._root)
            gpu = describe(self._driver, device, near, ports.active if ports.numbers else None)
        except LostError:
            return None
        return device, gpu, ports

    def _model(self, device: Device, gpu: Gpu, ports: Ports) -> GpuModel:
        """What the table knows; the generation of its NVLinks the GPU can tell itself."""
        # Only these hosts have CPUs with NVLinks, and the table has GPUs on them apart.
        host_cpu = "POWER8 POWER9 " if ports.to_cpu else ""
        model = model_in(host_cpu + gpu.model)
        return model if model.nvlink else replace(model, nvlink=read_generation(self._driver, device, ports))
