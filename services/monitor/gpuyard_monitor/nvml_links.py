"""How the GPUs of a machine are joined, as the driver tells: PCIe level, NVLinks, peer-to-peer."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpuyard.contracts.hardware import Level, Link
from gpuyard.topology.gpu_models import NvLink
from gpuyard_monitor.core.nvlinks import Ports, bonded, switched
from gpuyard_monitor.nvml_driver import Device, Driver, LostError

_LEVELS = {
    0: Level.SAME_BOARD,
    10: Level.SINGLE_SWITCH,
    20: Level.MULTI_SWITCH,
    30: Level.HOST_BRIDGE,
    40: Level.SAME_NODE,
    50: Level.SYSTEM,
}
_GENERATIONS = {
    1: NvLink.V1,
    2: NvLink.V2,
    3: NvLink.V2,
    4: NvLink.V3,
    5: NvLink.V3_BRIDGE,
    6: NvLink.V4,
    7: NvLink.V5,
}
# Plain numbers: the binding defines the first of these names as a tuple by mistake.
_P2P_READ, _P2P_WRITE, _P2P_NVLINK = 0, 1, 2
_P2P_OK = 0
_REMOTE_GPU, _REMOTE_CPU = 0, 1
_LINK_COUNT = 91
_MOST_PORTS = 36


def read_ports(driver: Driver, device: Device) -> Ports:
    """The NVLink ports of one GPU; read once, not for each pair."""
    count = _or_none(driver.fields, device, ((_LINK_COUNT, 0),)) or {}
    states = {number: _state(driver, device, number) for number in range(count.get(_LINK_COUNT, _MOST_PORTS))}
    ends = [_far_end(driver, device, number) for number, state in states.items() if state]
    return Ports(
        device.bus_id,
        peers=tuple(bus_id for _, bus_id in ends if bus_id),
        switched=sum(kind != _REMOTE_CPU and not bus_id for kind, bus_id in ends),
        to_cpu=sum(kind == _REMOTE_CPU for kind, _ in ends),
        numbers=tuple(number for number, state in states.items() if state is not None),
    )


def count_active(driver: Driver, device: Device, numbers: Sequence[int]) -> int | None:
    """How many of these ports are up; None if the GPU has none or does not tell."""
    states = [driver.ask(device, "nvmlDeviceGetNvLinkState", number) for number in numbers]
    return sum(map(bool, states)) if any(state is not None for state in states) else None


def read_generation(driver: Driver, device: Device, ports: Ports) -> NvLink | None:
    """Generation of the NVLinks, for models that the table does not know."""
    if not ports.numbers:
        return None
    version = _or_none(driver.ask, device, "nvmlDeviceGetNvLinkVersion", ports.numbers[0])
    return _GENERATIONS.get(version)


def read_links(driver: Driver, devices: Sequence[Device], ports: Sequence[Ports]) -> Iterator[Link]:
    """One link for each pair, by positions in `devices`."""
    for a, b in itertools.combinations(range(len(devices)), 2):
        yield _link(driver, a, b, (devices[a], devices[b]), (ports[a], ports[b]))


def _link(driver: Driver, a: int, b: int, pair: tuple[Device, Device], ports: tuple[Ports, Ports]) -> Link:
    level = _or_none(driver.ask_pair, "nvmlDeviceGetTopologyCommonAncestor", *pair)
    direct = bonded(*ports)
    through = (
        switched(*ports) if not direct and switched(*ports) and _reach(driver, *pair, _P2P_NVLINK) else 0
    )
    reads, writes = _reach(driver, *pair, _P2P_READ), _reach(driver, *pair, _P2P_WRITE)
    p2p = None if reads is None or writes is None else reads and writes
    return Link(a, b, _LEVELS.get(level), direct or through, p2p=p2p, switched=through > 0)


def _reach(driver: Driver, one: Device, other: Device, how: int) -> bool | None:
    """Whether the driver lets both GPUs copy to each other this way."""
    there = _or_none(driver.ask_pair, "nvmlDeviceGetP2PStatus", one, other, how)
    back = _or_none(driver.ask_pair, "nvmlDeviceGetP2PStatus", other, one, how)
    return None if there is None or back is None else there == back == _P2P_OK


def _state(driver: Driver, device: Device, number: int) -> Any:
    return _or_none(driver.ask, device, "nvmlDeviceGetNvLinkState", number)


def _far_end(driver: Driver, device: Device, number: int) -> tuple[int | None, str]:
    """Kind of the far end, and its bus id if it is a GPU that can be seen."""
    kind = _or_none(driver.ask, device, "nvmlDeviceGetNvLinkRemoteDeviceType", number)
    remote = _or_none(driver.ask, device, "nvmlDeviceGetNvLinkRemotePciInfo", number)
    # Drivers before 470 do not tell the kind; then the bus id alone decides.
    return kind, remote.busId.upper() if remote and kind in (_REMOTE_GPU, None) else ""


def _or_none(ask: Callable[..., Any], *args: Any) -> Any:
    """The answer, where it does not matter whether a GPU is lost: its next reading will tell."""
    try:
        return ask(*args)
    except LostError:
        return None
