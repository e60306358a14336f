"""The NVIDIA driver, one question at a time: the only file that imports pynvml.

An answer is a value, or None where the driver does not tell, which is normal: every model and every
driver leaves something out. What a GPU will never answer is asked once and then left alone. A GPU that
fell off the bus raises `LostError`, a driver replaced under this process raises `DriverChanged`; no other
error of NVML leaves this file.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuyard.contracts.errors import Unavailable
from gpuyard_monitor.core.readings import DriverChanged

# Codes of NVML's public header.
_INVALID, _NOT_SUPPORTED, _NO_PERMISSION, _NO_FUNCTION, _OTHER_VERSION = 2, 3, 4, 13, 25
_LOST, _CHANGED, _NO_GPU, _UNKNOWN = 15, 18, 28, 999
_FOR_EVER = frozenset({_INVALID, _NOT_SUPPORTED, _NO_PERMISSION, _NO_FUNCTION, _OTHER_VERSION})
# Every GPU that is there answers these, so "unknown error" means that it is gone. Elsewhere it means nothing.
_VITAL = frozenset({"nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo"})

_NO_START = {
    _NO_PERMISSION: (
        "this user may not talk to the NVIDIA driver",
        "Let the monitor's user read and write /dev/nvidiactl and /dev/nvidia0, /dev/nvidia1 ...",
    ),
    9: (
        "the NVIDIA driver is not loaded",
        "Load it with `modprobe nvidia`; if that fails, `dmesg` says why. Without GPUs all is well.",
    ),
    12: (
        "the NVIDIA driver's library libnvidia-ml.so.1 is not installed",
        "Install the NVIDIA driver; in a container, use the NVIDIA runtime. Without GPUs all is well.",
    ),
    _LOST: ("a GPU fell off the bus and the NVIDIA driver does not start", "Reboot the machine."),
    _UNKNOWN: (
        "the NVIDIA driver does not start: unknown error",
        "In a container, a reload of systemd may have taken the GPUs away: restart it. Else see `dmesg`.",
    ),
}
_UNION = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class LostError(Exception):
    """The GPU fell off the bus."""


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that answered. `mute` holds the questions that it never answers."""

    index: int
    handle: Any
    uuid: str
    bus_id: str
    mute: set[object] = field(default_factory=set)


class Driver:
    """Started once and kept, since a driver without clients takes seconds to wake.

    Raises:
        Unavailable: there is no pynvml, no library, or no driver that answers.

    """

    def __init__(self) -> None:
        self.calls = 0
        """Questions that reached the driver."""
        try:
            import pynvml  # noqa: PLC0415 - most machines of a cluster have no GPU and need not load it
        except ImportError as error:
            raise Unavailable("the package nvidia-ml-py is missing", "pip install 'gpuyard[nvml]'") from error
        self._api: Any = pynvml
        self._errors = (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError)
        try:
            self._api.nvmlInit()
        except self._errors as error:
            raise _no_start(error) from error

    def close(self) -> None:
        try:
            self._api.nvmlShutdown()
        except self._errors:
            return  # whoever ends has no more questions

    def device(self, index: int) -> Device | None:
        """A GPU by its position; None if it can't even be named: its neighbours must not suffer."""
        try:
            handle = self.call("nvmlDeviceGetHandleByIndex", index)
            return None if handle is None else self.device_of(handle, index)
        except LostError:
            return None

    def device_of(self, handle: Any, index: int) -> Device | None:
        nameless = Device(index, handle, "", "")
        uuid = self.ask(nameless, "nvmlDeviceGetUUID")
        pci = self.ask(nameless, "nvmlDeviceGetPciInfo")
        return Device(index, handle, uuid, pci.busId.upper() if pci else "") if uuid else None

    def call(self, name: str, *args: Any) -> Any:
        """Ask, even what was refused before.

        Raises:
            LostError, DriverChanged: see above.

        """
        return self._put(set(), (name,), *args)

    def ask(self, device: Device, name: str, *args: Any) -> Any:
        """Ask about one GPU, unless it never answers this. Raises as `call` does."""
        return self._put(device.mute, (name, *args), device.handle, *args)

    def ask_pair(self, name: str, one: Device, other: Device, *args: Any) -> Any:
        """Ask the first GPU about the second. Raises as `call` does."""
        return self._put(one.mute, (name, other.uuid, *args), one.handle, other.handle, *args)

    def first(self, device: Device, *questions: tuple[Any, ...]) -> Any:
        """The answer to the first question that gets one: newer functions first, then older ones."""
        for question in questions:
            answer = self.ask(device, *question)
            if answer is not None:
                return answer
        return None

    def fields(self, device: Device, fields: Sequence[tuple[int, int]]) -> dict[int, int]:
        """Values by field id, for pairs of field and scope; what the driver does not tell is left out."""
        wanted = tuple(each for each in fields if each not in device.mute)
        answers = self.ask(device, "nvmlDeviceGetFieldValues", wanted) if wanted else None
        told: dict[int, int] = {}
        for question, answer in zip(wanted, answers or (), strict=False):
            if answer.nvmlReturn:
                self._no_answer(device.mute, question, answer.nvmlReturn)
            else:
                told[question[0]] = int(getattr(answer.value, _UNION[answer.valueType]))
        return told

    def _put(self, mute: set[object], question: tuple[Any, ...], *args: Any) -> Any:
        if question in mute:
            return None
        self.calls += 1
        try:
            return getattr(self._api, question[0])(*args)
        except self._errors as error:
            self._no_answer(mute, question, _code(error))
            return None

    def _no_answer(self, mute: set[object], question: tuple[Any, ...], code: int) -> None:
        if code == _CHANGED:
            raise DriverChanged
        if code in (_LOST, _NO_GPU) or (code == _UNKNOWN and question[0] in _VITAL):
            raise LostError
        if code in _FOR_EVER:
            mute.add(question)


def _code(error: Any) -> int:
    """The binding has an error without a code for process lists that the library does not know."""
    return int(getattr(error, "value", _NO_FUNCTION))


def _no_start(error: Any) -> Unavailable:
    if _code(error) == _CHANGED:
        return DriverChanged()
    known = _NO_START.get(_code(error))
    return Unavailable(*known or (f"the NVIDIA driver does not start: {error}", "nvidia-smi tells more."))
