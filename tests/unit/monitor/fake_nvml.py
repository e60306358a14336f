"""A driver that is not there: drives the stand-in for NVML, so that the real binding is what gets tested.

The stand-in, fake_nvml.c, answers from a table in a shared file. A `FakeDriver` is that table, so whatever
is assigned to it counts from the next call on, in this process and in any other that opened the library:

    driver = FakeDriver.of(captures.load("dgx-h100-8gpu-10hca"), folder)
    driver.plug_into(monkeypatch)          # this process, or:
    subprocess.Popen(..., env=os.environ | driver.environment())

    driver.gpus[2].lost = True             # fell off the bus; lost_code = 999 for "unknown error"
    driver.gpus[2].calls_to_live = 5       # falls off the bus after five more calls
    driver.xid(2, 79)                      # an error event
    driver.gpus[1].refuse("nvmlDeviceGetPowerUsage")   # NotSupported, or another code
    driver.gpus[0].ports[3].up = False     # an NVLink down, on this side
    driver.gpus[0].run(4711, 1 << 30)      # a process; `stop(4711)` ends it
    driver.gpus[0].slice("MIG-...", 5 << 30)           # MIG on, with one more instance
    driver.gpus[0].ecc_uncorrected += 1    # and clock_reasons, temperature_c, remapped[3], recovery ...
    driver.count = 7                       # the driver counts one less
    driver.slow_ms = 200                   # each call, or only `slow_function`
    driver.init_code = 9                   # what starting answers: 9, 12, 18, 999
    driver.version_code = 18               # what every call answers: the driver was changed
    driver.asked("nvmlDeviceGetPowerUsage")            # how often; driver.calls: all calls

`build(folder, without=("nvmlDeviceGetTemperatureV",))` makes a library that lacks functions, as those of
old drivers do.
"""

import atexit
import ctypes
import functools
import mmap
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pynvml
import pytest

from gpuyard.contracts.hardware import Level, Link
from gpuyard.topology.capture import Capture
from gpuyard.topology.gpu_models import GpuModel, NvLink
from gpuyard.topology.link_speed import described
from gpuyard.topology.matrix_text import Affinity

SOURCE = Path(__file__).with_name("fake_nvml.c")
NOT_SUPPORTED, NO_PERMISSION, LOST, UNKNOWN = 3, 4, 15, 999
TO_GPU, TO_CPU, TO_SWITCH, HIDDEN = 0, 1, 2, 255
COMPUTE, GRAPHICS, MPS = 0, 1, 2
FABRIC_COMPLETE = 3
SWITCH = b"00000000:C0:00.0"
GIB = 1 << 30

_GPUS, _PORTS, _PROCESSES, _MIGS, _RULES, _EVENTS, _COUNTED = 16, 18, 16, 7, 12, 1024, 64
_LEVELS = {level: 10 * at for at, level in enumerate(Level)}
_VERSIONS = {
    NvLink.V1: 1,
    NvLink.V2: 2,
    NvLink.V3: 4,
    NvLink.V3_BRIDGE: 5,
    NvLink.V4: 6,
    NvLink.V5: 7,
}
_ENDLESS = -1
_READ, _WRITE, _NVLINK = 0, 1, 2
_REFUSED = 5
_U, _I, _U64 = ctypes.c_uint, ctypes.c_int, ctypes.c_uint64


class _Rule(ctypes.Structure):
    _fields_ = (("function", ctypes.c_char * 48), ("code", _I))


class _Port(ctypes.Structure):
    _fields_ = (("up", _I), ("kind", _I), ("version", _I), ("remote", ctypes.c_char * 32))


class _Program(ctypes.Structure):
    _fields_ = (("pid", _U), ("kind", _U), ("bytes", _U64))


class _Mig(ctypes.Structure):
    _fields_ = (("is_mig", _I), ("present", _I), ("uuid", ctypes.c_char * 96), ("bytes", _U64))


class FakeGpu(ctypes.Structure):
    """One GPU. Numbers are as NVML has them."""

    _fields_ = (
        ("is_mig", _I),
        ("name", ctypes.c_char * 96),
        ("uuid", ctypes.c_char * 96),
        ("bus_id", ctypes.c_char * 32),
        ("memory_total_bytes", _U64),
        ("memory_used_bytes", _U64),
        ("memory_reserved_bytes", _U64),
        ("utilisation", _U),
        ("power_mw", _U),
        ("power_limit_mw", _U),
        ("temperature_c", _I),
        ("major", _I),
        ("minor", _I),
        ("clock_reasons", _U64),
        ("ecc_corrected", _U64),
        ("ecc_uncorrected", _U64),
        ("remapped", _U * 4),
        ("retired_pages", _U),
        ("recovery", _U),
        ("pcie_tx_kb_s", _U),
        ("pcie_rx_kb_s", _U),
        ("nvlink_tx_kib", _U64),
        ("nvlink_rx_kib", _U64),
        ("energy_mj", _U64),
        ("cpus", _U64 * 16),
        ("numas", _U64),
        ("mig_on", _I),
        ("migs", _Mig * _MIGS),
        ("fabric_cluster", ctypes.c_uint8 * 16),
        ("fabric_clique", _U),
        ("fabric_state", _U),
        ("port_count", _U),
        ("ports", _Port * _PORTS),
        ("program_count", _U),
        ("programs", _Program * _PROCESSES),
        ("lost", _I),
        ("lost_code", _I),
        ("calls_to_live", _I),
        ("rules", _Rule * _RULES),
    )
    port_count: int
    program_count: int

    def refuse(self, *functions: str, code: int = NOT_SUPPORTED) -> None:
        """Answer these functions, by their C names, with a code from now on; 0 allows them again."""
        for function in functions:
            names = (b"", function.encode())
            rule = next(rule for rule in self.rules if rule.function in names)
            rule.function, rule.code = function.encode(), code

    def wire(self, *remotes: bytes, kind: int = TO_GPU, version: int = _VERSIONS[NvLink.V3]) -> None:
        """Plug in NVLinks, by the bus id at their far ends; empty where nobody tells."""
        for remote in remotes:
            self.ports[self.port_count] = _Port(1, kind, version, remote)
            self.port_count += 1

    def run(self, pid: int, memory_bytes: int = GIB, kind: int = COMPUTE) -> None:
        self.programs[self.program_count] = _Program(pid, kind, memory_bytes)
        self.program_count += 1

    def stop(self, pid: int) -> None:
        left = [
            (one.pid, one.kind, one.bytes) for one in self.programs[: self.program_count] if one.pid != pid
        ]
        self.program_count = len(left)
        for at, one in enumerate(left):
            self.programs[at] = _Program(*one)

    def slice(self, uuid: str, memory_bytes: int, at: int = 0) -> None:
        self.mig_on = 1
        self.migs[at] = _Mig(1, 1, uuid.encode(), memory_bytes)


class _Event(ctypes.Structure):
    _fields_ = (("gpu", _I), ("xid", _I))


class _Counter(ctypes.Structure):
    _fields_ = (("function", ctypes.c_char * 48), ("calls", _U))


Matrix = (_I * _GPUS) * _GPUS


class FakeDriver(ctypes.Structure):
    """The table: a driver with GPUs as the test wants them."""

    _fields_ = (
        ("init_code", _I),
        ("version_code", _I),
        ("count", _U),
        ("calls", _U),
        ("slow_ms", _U),
        ("slow_function", ctypes.c_char * 48),
        ("version", ctypes.c_char * 32),
        ("gpus", FakeGpu * _GPUS),
        ("levels", Matrix),
        ("p2p", Matrix * 3),
        ("events", _Event * _EVENTS),
        ("event_head", _U),
        ("event_tail", _U),
        ("counters", _Counter * _COUNTED),
    )
    file: Path
    library: Path

    @classmethod
    def at(cls, folder: Path) -> "FakeDriver":
        """A driver without GPUs; its shared file lies in `folder`."""
        file = folder / "fake_nvml.table"
        file.write_bytes(bytes(ctypes.sizeof(cls)))
        with file.open("r+b") as opened:
            driver = cls.from_buffer(mmap.mmap(opened.fileno(), 0))
        driver.file, driver.library = file, standard()
        driver.version = b"580.1"
        return driver

    @classmethod
    def of(cls, capture: Capture, folder: Path) -> "FakeDriver":
        """A driver on the machine of a capture. `NV#` hides a pair's PCIe level: sockets tell it."""
        driver, affinities = cls.at(folder), capture.topology.gpus
        driver.install(len(affinities), capture.model.name.encode())
        for gpu, affinity in zip(driver.gpus, affinities, strict=False):
            _settle(gpu, capture.model, affinity)
        for link in described(capture.topology.links, capture.model):
            hidden = Level.SAME_NODE if affinities[link.a] == affinities[link.b] else Level.SYSTEM
            driver.set_level(link.a, link.b, link.level or hidden)
            driver.set_p2p(link.a, link.b, link.p2p)
            driver.plug(link, _VERSIONS.get(capture.model.nvlink or NvLink.V3, 0))
        return driver

    def install(self, count: int, name: bytes = b"NVIDIA A100-SXM4-80GB") -> None:
        """GPUs in different sockets, without NVLink, that allow peer-to-peer copies."""
        self.count = count
        for index in range(count):
            self.gpus[index] = _gpu(index, name)
            for other in range(index):
                self.set_level(index, other, Level.SYSTEM)

    def set_level(self, a: int, b: int, level: Level) -> None:
        self.levels[a][b] = self.levels[b][a] = _LEVELS[level]

    def set_p2p(self, a: int, b: int, allowed: bool | None) -> None:
        """Whether two GPUs may read and write each other; None: the driver does not tell."""
        for how in (_READ, _WRITE):
            self.p2p[how][a][b] = self.p2p[how][b][a] = -1 if allowed is None else _REFUSED * (not allowed)

    def plug(self, link: Link, version: int) -> None:
        """Wire two GPUs as a link says: to each other, or each to the switch, once for all its peers."""
        self.p2p[_NVLINK][link.a][link.b] = self.p2p[_NVLINK][link.b][link.a] = _REFUSED * (not link.nvlinks)
        if not link.switched:
            self.join(link.a, link.b, link.nvlinks, version)
            return
        for gpu in (self.gpus[link.a], self.gpus[link.b]):
            gpu.wire(*[SWITCH] * (link.nvlinks - gpu.port_count), kind=TO_SWITCH, version=version)

    def join(self, a: int, b: int, nvlinks: int, version: int = _VERSIONS[NvLink.V3]) -> None:
        """Wire two GPUs directly."""
        self.gpus[a].wire(*[self.gpus[b].bus_id] * nvlinks, version=version)
        self.gpus[b].wire(*[self.gpus[a].bus_id] * nvlinks, version=version)

    def xid(self, gpu: int, number: int) -> None:
        """An error event; `gpu` -1: the driver does not say which."""
        self.events[self.event_tail % _EVENTS] = _Event(gpu, number)
        self.event_tail += 1

    def asked(self, function: str) -> int:
        """How often this C function was called."""
        return sum(each.calls for each in self.counters if each.function == function.encode())

    def plug_into(self, monkeypatch: pytest.MonkeyPatch, library: Path | None = None) -> None:
        """Make it the driver of this process."""
        loaded = ctypes.CDLL(str(library or self.library))
        assert loaded.fake_size() == ctypes.sizeof(self), "fake_nvml.c and fake_nvml.py differ"
        assert loaded.fake_attach(str(self.file).encode()) == 0
        monkeypatch.setattr(pynvml, "nvmlLib", loaded)
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    def environment(self) -> dict[str, str]:
        """What makes it the driver of another process."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "FAKE_NVML": str(self.file)}


def uuid(index: int) -> str:
    return f"GPU-{index:08d}-0000-0000-0000-000000000000"


def bus(index: int) -> bytes:
    return f"00000000:{0x10 + index:02X}:00.0".encode()


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


@functools.cache
def standard() -> Path:
    """The library with all functions, compiled once for each test process."""
    folder = Path(tempfile.mkdtemp(prefix="fake-nvml-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return build(folder)


def build(folder: Path, without: Iterable[str] = ()) -> Path:
    """Compile a library; `without` names C functions that it lacks.

    It has a file's name only, and no name inside: with one, this process would take it for the real
    library from then on.
    """
    library = folder / "libnvidia-ml.so.1"
    hidden = [f"-D{name}=hidden_{at}" for at, name in enumerate(without)]
    command = [str(compiler()), "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *hidden]
    subprocess.run([*command, "-o", str(library), str(SOURCE)], check=True)
    return library


def _gpu(index: int, name: bytes) -> FakeGpu:
    return FakeGpu(
        name=name,
        uuid=uuid(index).encode(),
        bus_id=bus(index),
        memory_total_bytes=80 * GIB,
        memory_used_bytes=index * GIB,
        memory_reserved_bytes=GIB // 2,
        utilisation=10 * index,
        power_mw=100_500 + index,
        power_limit_mw=400_000,
        temperature_c=30 + index,
        major=8,
        lost_code=LOST,
        calls_to_live=_ENDLESS,
    )


def _settle(gpu: FakeGpu, model: GpuModel, affinity: Affinity) -> None:
    if model.memory_bytes:
        gpu.memory_total_bytes = model.memory_bytes
    if model.socket_gb_s:
        gpu.wire(b"", b"", b"", kind=TO_CPU)
    before_ampere = model.pcie == 3
    gpu.refuse("nvmlDeviceGetRemappedRows" if before_ampere else "nvmlDeviceGetRetiredPages")
    gpu.numas = 0 if affinity.numa is None else 1 << affinity.numa
    for part in affinity.cpus.split(",") if affinity.cpus else ():
        first, _, last = part.partition("-")
        for cpu in range(int(first), int(last or first) + 1):
            gpu.cpus[cpu // 64] |= 1 << cpu % 64
