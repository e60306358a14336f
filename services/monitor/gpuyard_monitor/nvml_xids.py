"""XIDs, the errors that the driver reports by event: collected without waiting for any."""

import ctypes
from collections.abc import Iterable, Iterator
from typing import Any

from gpuyard_monitor.core.readings import Xid
from gpuyard_monitor.nvml_driver import Device, Driver, LostError

_XID = 0x8
# A GPU that floods must not hold up the rest; what is left comes next time.
_MOST = 256


class Xids:
    """One event set for all GPUs. A GPU that knows no events has none; that says nothing about its health."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._set: Any = None
        self._devices: tuple[Device, ...] = ()
        self._uuids: dict[int | None, str] = {}
        self._come: list[Xid] = []

    def watch(self, devices: Iterable[Device]) -> None:
        """Watch these GPUs from now on. Nothing that came before gets lost."""
        now = tuple(devices)
        if {device.uuid for device in now} != {device.uuid for device in self._devices}:
            self._collect()
            self._devices = now
            self._register()

    def drain(self) -> tuple[Xid, ...]:
        """What has come since the last call."""
        self._collect()
        come, self._come = self._come, []
        return tuple(come)

    def _collect(self) -> None:
        try:
            for xid in self._arrived():
                self._come.append(xid)
        except LostError:
            # A set with a lost GPU in it tells nothing about the others either.
            self._register()

    def _arrived(self) -> Iterator[Xid]:
        for _ in range(_MOST if self._set else 0):
            event = self._driver.call("nvmlEventSetWait", self._set, 0)
            if event is None:
                return
            if event.eventType == _XID:
                yield Xid(self._uuids.get(_address(event.device)), event.eventData)

    def _register(self) -> None:
        if self._set:
            self._driver.call("nvmlEventSetFree", self._set)
        self._set = self._driver.call("nvmlEventSetCreate")
        for device in self._devices if self._set else ():
            self._uuids[_address(device.handle)] = device.uuid
            try:
                self._driver.call("nvmlDeviceRegisterEvents", device.handle, _XID, self._set)
            except LostError:
                continue


def _address(handle: Any) -> int | None:
    """Handles are pointers; two of the same GPU are equal in their address only."""
    return ctypes.cast(handle, ctypes.c_void_p).value
