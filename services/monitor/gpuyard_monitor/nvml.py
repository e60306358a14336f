"""The machine's NVIDIA GPUs through NVML: the only file that imports pynvml.

One call that fails costs one value, one GPU that fell off the bus costs that GPU, a missing driver costs
all GPUs and nothing else. NVML stays initialised for the life of the process, since a driver without
clients takes seconds to wake. Every method may block: call from a thread.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.hardware import Gpu, GpuProcess, GpuSample, Level, Link
from gpuyard.topology.gpu_models import UNKNOWN, model_in
from gpuyard.topology.link_speed import described
from gpuyard.topology.matrix_text import Affinity
from gpuyard_monitor.core.nvlinks import Ports, bonded, switched

_LEVELS = {
    0: Level.SAME_BOARD,
    10: Level.SINGLE_SWITCH,
    20: Level.MULTI_SWITCH,
    30: Level.HOST_BRIDGE,
    40: Level.SAME_NODE,
    50: Level.SYSTEM,
}
# Plain numbers: the binding defines the first of these names as a tuple by mistake.
_P2P_READ, _P2P_WRITE, _P2P_NVLINK = 0, 1, 2
_P2P_OK = 0
_REMOTE_GPU = 0


@dataclass(frozen=True, slots=True)
class _Device:
    index: int
    handle: Any
    uuid: str
    bus_id: str


class _LostError(Exception):
    """The GPU fell off the bus."""


class Nvml:
    """The GPUs that the driver shows to this process.

    Raises:
        Unavailable: there is no pynvml, no library, or no driver that answers.

    """

    def __init__(self) -> None:
        try:
            import pynvml  # noqa: PLC0415 - most machines of a cluster have no GPU and need not load it
        except ImportError as error:
            raise Unavailable("the package nvidia-ml-py is missing", "pip install 'gpuyard[nvml]'") from error
        self._api: Any = pynvml
        self._errors = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
        self._devices: list[_Device] = []
        self.missing = 0
        """GPUs that the driver counts, but that did not answer when last looked for."""
        try:
            self._api.nvmlInit()
        except self._errors as error:
            raise Unavailable(
                f"the NVIDIA driver does not answer: {error}", "nvidia-smi tells more."
            ) from error

    def driver(self) -> str:
        return self._peek(self._api.nvmlSystemGetDriverVersion) or ""

    def find(self, affinity_of: Callable[[str], Affinity]) -> tuple[tuple[Gpu, ...], tuple[Link, ...]]:
        """Look for GPUs anew: what they are, and how each pair is linked."""
        count = self._peek(self._api.nvmlDeviceGetCount) or 0
        devices = [device for device in map(self._device, range(count)) if device]
        found = [(device, gpu) for device in devices if (gpu := self._gpu(device, affinity_of))]
        self._devices = [device for device, _ in found]
        self.missing = count - len(found)
        gpus = tuple(gpu for _, gpu in found)
        models = {gpu.model for gpu in gpus}
        # Between GPUs of different models the bandwidth is unknown.
        model = model_in(*models) if len(models) == 1 else UNKNOWN
        return gpus, described(self._links(), model)

    def samples(self) -> tuple[GpuSample, ...]:
        """One reading of each GPU found; a lost one is left out."""
        return tuple(sample for sample in map(self._sample, self._devices) if sample)

    def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        """The answer; None where this GPU, driver or library has none to this question."""
        try:
            return call(*args)
        except self._errors as error:
            if isinstance(error, self._api.NVMLError_GpuIsLost):
                raise _LostError from error
            return None

    def _device(self, index: int) -> _Device | None:
        """A GPU that can't even be named is left out: its neighbours must not suffer."""
        api = self._api
        try:
            handle = api.nvmlDeviceGetHandleByIndex(index)
            uuid = api.nvmlDeviceGetUUID(handle)
            return _Device(index, handle, uuid, api.nvmlDeviceGetPciInfo(handle).busId.upper())
        except self._errors:
            return None

    def _gpu(self, device: _Device, affinity_of: Callable[[str], Affinity]) -> Gpu | None:
        try:
            name = self._ask(self._api.nvmlDeviceGetName, device.handle)
            memory = self._memory(device)
        except _LostError:
            return None
        near = affinity_of(device.bus_id)
        return Gpu(
            uuid=device.uuid,
            index=device.index,
            model=name or "",
            memory_bytes=memory.total if memory else None,
            numa=near.numa,
            cpus=near.cpus,
        )

    def _memory(self, device: _Device) -> Any:
        """Version 2 tells the driver's own share apart; drivers before 510 know version 1 only."""
        ask, api = self._ask, self._api
        newer = ask(api.nvmlDeviceGetMemoryInfo, device.handle, api.nvmlMemory_v2)
        return newer or ask(api.nvmlDeviceGetMemoryInfo, device.handle)

    def _sample(self, device: _Device) -> GpuSample | None:
        ask, api, handle = self._ask, self._api, device.handle
        try:
            rates = ask(api.nvmlDeviceGetUtilizationRates, handle)
            memory = self._memory(device)
            milliwatts = ask(api.nvmlDeviceGetPowerUsage, handle)
            celsius = ask(api.nvmlDeviceGetTemperature, handle, api.NVML_TEMPERATURE_GPU)
            processes = ask(api.nvmlDeviceGetComputeRunningProcesses, handle)
        except _LostError:
            return None
        return GpuSample(
            uuid=device.uuid,
            utilisation=rates and min(rates.gpu / 100, 1.0),
            memory_used_bytes=memory and memory.used,
            power_w=None if milliwatts is None else milliwatts / 1000,
            temperature_c=celsius,
            processes=None if processes is None else tuple(GpuProcess(one.pid) for one in processes),
        )

    def _links(self) -> Iterator[Link]:
        ports = [self._ports(device) for device in self._devices]
        for a, b in itertools.combinations(range(len(self._devices)), 2):
            one, other = self._devices[a].handle, self._devices[b].handle
            level = self._peek(self._api.nvmlDeviceGetTopologyCommonAncestor, one, other)
            nvlinks = bonded(ports[a], ports[b])
            if not nvlinks and self._reach(one, other, _P2P_NVLINK):
                nvlinks = switched(ports[a], ports[b])
            reads, writes = self._reach(one, other, _P2P_READ), self._reach(one, other, _P2P_WRITE)
            p2p = None if reads is None or writes is None else reads and writes
            yield Link(a, b, _LEVELS.get(level), nvlinks, p2p=p2p)

    def _reach(self, one: Any, other: Any, how: int) -> bool | None:
        """Whether the driver lets both GPUs copy to each other this way."""
        there = self._peek(self._api.nvmlDeviceGetP2PStatus, one, other, how)
        back = self._peek(self._api.nvmlDeviceGetP2PStatus, other, one, how)
        return None if there is None or back is None else there == back == _P2P_OK

    def _ports(self, device: _Device) -> Ports:
        active = [
            link
            for link in range(self._api.NVML_NVLINK_MAX_LINKS)
            if self._peek(self._api.nvmlDeviceGetNvLinkState, device.handle, link)
        ]
        peers = [peer for link in active if (peer := self._peer(device, link))]
        return Ports(device.bus_id, tuple(peers), len(active) - len(peers))

    def _peer(self, device: _Device, link: int) -> str | None:
        """Bus id of the GPU at the far end; None if there is a switch, or nobody tells."""
        api = self._api
        kind = self._peek(api.nvmlDeviceGetNvLinkRemoteDeviceType, device.handle, link)
        remote = self._peek(api.nvmlDeviceGetNvLinkRemotePciInfo, device.handle, link)
        # Drivers before 470 do not tell the kind; then the bus id alone decides.
        return remote.busId.upper() if remote and kind in (_REMOTE_GPU, None) else None

    def _peek(self, call: Callable[..., Any], *args: Any) -> Any:
        """Like `_ask`, where it does not matter whether a GPU is lost: its next sample will tell."""
        try:
            return self._ask(call, *args)
        except _LostError:
            return None
