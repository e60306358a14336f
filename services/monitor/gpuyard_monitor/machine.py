"""The machine that this process runs on, as a node."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from gpuyard.contracts.errors import Unavailable
from gpuyard.telemetry.logs import Log
from gpuyard_monitor import host
from gpuyard_monitor.aside import aside
from gpuyard_monitor.core.look import Hardware, Look, Trouble
from gpuyard_monitor.core.readings import DriverChanged, Reading, Xid
from gpuyard_monitor.nvml import Nvml
from gpuyard_monitor.processes import Processes


class Machine:
    """Host facts from the kernel, GPUs from NVML where it answers. Reads in threads: NVML may block."""

    def __init__(self, log: Log, root: Path = host.ROOT, open_nvml: Callable[[Path], Nvml] = Nvml) -> None:
        self._log = log
        self._root = root
        self._open_nvml = open_nvml
        self._nvml: Nvml | None = None
        self._processes = Processes(root)
        self._trouble: Trouble | None = None
        self._cpu_before = host.read_cpu_times(root)

    async def hardware(self) -> Hardware:
        return await aside(self._hardware)

    async def look(self, now_s: float, *, paced: bool) -> Look:
        return await aside(partial(self._look, paced))

    def _hardware(self) -> Hardware:
        facts = host.read_host(self._root)
        try:
            # Opened late too: a driver may be installed while the monitor runs.
            self._nvml = self._nvml or self._open_nvml(self._root)
            found, driver = self._nvml.find(), self._nvml.driver()
        except Unavailable as why:
            self._note(why)
            return Hardware(facts, None, self._trouble, source=f"no GPUs: {why.message}")
        self._trouble = None
        return Hardware(replace(facts, driver=driver), found, source="NVML")

    def _look(self, paced: bool) -> Look:
        before, self._cpu_before = self._cpu_before, host.read_cpu_times(self._root)
        readings, xids = self._read(paced)
        pids = (process.pid for reading in readings for process in reading.processes or ())
        return Look(
            readings,
            xids,
            self._processes.origins(pids),
            host.busy_frac(before, self._cpu_before),
            host.read_memory_used_bytes(self._root),
            paced,
            self._trouble,
        )

    def _read(self, paced: bool) -> tuple[tuple[Reading, ...], tuple[Xid, ...]]:
        if self._nvml is None:
            return (), ()
        try:
            readings, xids = self._nvml.read(paced), self._nvml.xids()
        except Unavailable as why:
            self._note(why)
            return (), ()
        return readings, xids

    def _note(self, why: Unavailable) -> None:
        """Said once, since it is tried again all the time."""
        event = "driver_changed" if isinstance(why, DriverChanged) else "driver_lost"
        trouble = Trouble(why.message, why.hint, event)
        if trouble != self._trouble:
            self._log.info("no GPUs", why=why.message, hint=why.hint)
        self._trouble = trouble
