"""Compiles and drives the stand-in for NVML, so that the real binding is what gets tested."""

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("fake_nvml.c")
MAX = 16


class FakeGpu(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 96),
        ("uuid", ctypes.c_char * 96),
        ("bus", ctypes.c_char * 32),
        ("total", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
        ("utilisation", ctypes.c_uint),
        ("power_mw", ctypes.c_uint),
        ("temperature", ctypes.c_uint),
        ("pid_count", ctypes.c_uint),
        ("pids", ctypes.c_uint * 8),
        ("lost", ctypes.c_int),
        ("bare", ctypes.c_int),
        ("links", ctypes.c_uint),
        ("remote", (ctypes.c_char * 32) * 18),
        ("remote_kind", ctypes.c_int * 18),
        ("down", ctypes.c_int * 18),
    )


Matrix = (ctypes.c_int * MAX) * MAX


class FakeDriver:
    """A driver with GPUs as the test wants them. Patch `library` into the binding to use it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.gpus: Any = (FakeGpu * MAX).in_dll(library, "fake_gpus")
        self.levels: Any = Matrix.in_dll(library, "fake_levels")
        self.p2p: Any = Matrix.in_dll(library, "fake_p2p")

    def answer_init(self, code: int) -> None:
        ctypes.c_int.in_dll(self.library, "fake_init").value = code

    def install(self, count: int, name: bytes = b"NVIDIA A100-SXM4-80GB") -> None:
        """GPUs in different sockets, without NVLink, that allow peer-to-peer copies."""
        ctypes.c_uint.in_dll(self.library, "fake_count").value = count
        for index in range(MAX):
            self.gpus[index] = FakeGpu(
                name=name,
                uuid=f"GPU-{index:08d}-0000-0000-0000-000000000000".encode(),
                bus=bus(index),
                total=80 << 30,
                used=index << 30,
                utilisation=10 * index,
                power_mw=100_500 + index,
                temperature=30 + index,
            )
            self.levels[index] = (ctypes.c_int * MAX)(*[50] * MAX)
            self.p2p[index] = (ctypes.c_int * MAX)()

    def wire(self, index: int, *remotes: bytes, kind: int = 0) -> None:
        """Plug NVLinks into a GPU, by the bus id at their far ends; empty where nobody tells."""
        self.gpus[index].links = len(remotes)
        for link, remote in enumerate(remotes):
            self.gpus[index].remote[link].value = remote
            self.gpus[index].remote_kind[link] = kind


def bus(index: int) -> bytes:
    return f"00000000:{0x10 + index:02X}:00.0".encode()


def compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


def build(folder: Path) -> FakeDriver:
    """Compile and load."""
    library = folder / "fake_nvml.so"
    subprocess.run([str(compiler()), "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
    return FakeDriver(ctypes.CDLL(str(library)))
