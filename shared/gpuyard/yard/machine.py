"""What a yard needs of the machine, and what it can use: checked without a running yard."""

import ctypes
import fcntl
import importlib.metadata
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from gpuyard.contracts.errors import GpuyardError
from gpuyard.yard.check import Check, fail, ok, warn
from gpuyard.yard.container_engine import examine_engine
from gpuyard.yard.layout import LEAST_FREE_BYTES
from gpuyard.yard.limits import ENOUGH, LEAST, wanted_limit
from gpuyard.yard.nats_server import find_binary, version_of

COMFORTABLE_FREE_BYTES = 10 * 1024**3
_PR_GET_CHILD_SUBREAPER = 37


def examine_machine(store: Path) -> Iterator[Check]:
    """Look at everything; `store` is where a yard keeps its data, or would."""
    yield nats_server()
    yield disk(store)
    yield open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield kernel()
    yield nvidia()
    yield from examine_engine(gpu_count())
    yield torch()


def nats_server(asked: str = "") -> Check:
    try:
        binary = find_binary(asked)
        return ok("nats-server", f"version {version_of(binary)}, {binary}")
    except GpuyardError as error:
        return fail("nats-server", error.message, error.hint)


def disk(store: Path) -> Check:
    there = next(folder for folder in (store, *store.parents) if folder.exists())
    return judge_disk(there, shutil.disk_usage(there).free)


def judge_disk(folder: Path, free_bytes: int) -> Check:
    free = f"{free_bytes / 1024**3:.1f} GiB free in {folder}"
    if free_bytes < LEAST_FREE_BYTES:
        return fail("disk", f"only {free}", "Free some space: a store that meets the end of it gets stuck.")
    if free_bytes < COMFORTABLE_FREE_BYTES:
        return warn("disk", f"only {free}", "Logs and uploads may need more; watch it.")
    return ok("disk", free)


def open_files(soft: int, hard: int) -> Check:
    allowed = wanted_limit(soft, hard)
    if allowed < LEAST:
        return fail(
            "open files", f"only {allowed} at once; {LEAST} are needed", f"Allow more: `ulimit -n {ENOUGH}`."
        )
    return ok("open files", f"{allowed} at once")


def kernel() -> Check:
    """Locks keep a yard to itself; subreapers keep the children of a rank's supervisor together."""
    missing = [name for name, works in (("file locks", _can_lock), ("subreapers", _can_reap)) if not works()]
    if missing:
        return fail(
            "kernel", f"lacks {' and '.join(missing)}", "Use Linux 3.4 or newer, and a local file system."
        )
    return ok("kernel", f"{os.uname().sysname} {os.uname().release}, file locks and subreapers work")


def _can_lock() -> bool:
    try:
        with tempfile.TemporaryFile() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _can_reap() -> bool:
    answer = ctypes.c_int()
    code: int = ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return code == 0


def nvidia() -> Check:
    """Optional: without GPUs there are simulated nodes."""
    if (answer := _ask_nvml()) is None:
        return warn(
            "nvidia",
            "no driver; this machine offers no GPUs",
            "Not needed with simulated nodes. Else install it.",
        )
    return judge_nvml(*answer)


def gpu_count() -> int:
    """GPUs of this machine that its driver can use."""
    code, _, count = _ask_nvml() or (0, "", 0)
    return 0 if code else count


def judge_nvml(code: int, driver: str, count: int) -> Check:
    if code:
        return fail(
            "nvidia", f"the driver is installed, but NVML fails with code {code}", "See `nvidia-smi`."
        )
    return ok("nvidia", f"driver {driver}, {count} GPUs")


def _ask_nvml() -> tuple[int, str, int] | None:
    """Error code, version of the driver and number of GPUs; None without a driver."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    driver, count = ctypes.create_string_buffer(96), ctypes.c_uint()
    calls: tuple[Callable[[], int], ...] = (
        library.nvmlInit_v2,
        lambda: library.nvmlSystemGetDriverVersion(driver, len(driver)),
        lambda: library.nvmlDeviceGetCount_v2(ctypes.byref(count)),
    )
    code = next((code for call in calls if (code := call())), 0)
    library.nvmlShutdown()
    return code, driver.value.decode(errors="replace"), count.value


def torch() -> Check:
    """Optional: jobs may bring their own Python."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return warn(
            "torch",
            f"not installed for {sys.executable}; the demo needs it",
            "Install it with `pip install 'gpuyard[examples]'`.",
        )
    return ok("torch", f"version {version} for {sys.executable}")
