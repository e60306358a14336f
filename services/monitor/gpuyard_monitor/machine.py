"""The machine that this process runs on, as a node."""

import asyncio
from pathlib import Path

from msgspec.structs import replace

from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.hardware import Gpu, GpuSample, Inventory, Link, NodeSample
from gpuyard.telemetry.logs import Log
from gpuyard_monitor import host
from gpuyard_monitor.nvml import Nvml


class Machine:
    """Host facts from the kernel, GPUs from NVML where it answers. Reads in threads: NVML may block."""

    def __init__(self, node: str, log: Log, root: Path = host.ROOT) -> None:
        self._node = node
        self._log = log
        self._root = root
        self._nvml: Nvml | None = None
        self._told = False
        self._cpu_before = host.read_cpu_times(root)

    async def inventory(self, now_s: float) -> Inventory:
        return await asyncio.to_thread(self._inventory, now_s)

    async def sample(self, now_s: float, seq: int) -> NodeSample:
        return await asyncio.to_thread(self._sample, now_s, seq)

    def _inventory(self, now_s: float) -> Inventory:
        self._nvml = self._nvml or self._open()
        gpus, links = self._find()
        facts = host.read_host(self._root)
        return Inventory(
            node=self._node,
            at_s=now_s,
            host=replace(facts, driver=self._nvml.driver()) if self._nvml else facts,
            gpus=gpus,
            links=links,
            source=self._source(),
        )

    def _open(self) -> Nvml | None:
        """Tried at each inventory, since a driver may be installed later; said once."""
        try:
            return Nvml()
        except Unavailable as why:
            if not self._told:
                self._log.info("no GPUs", why=why.message, hint=why.hint)
            self._told = True
            return None

    def _find(self) -> tuple[tuple[Gpu, ...], tuple[Link, ...]]:
        return (
            self._nvml.find(lambda bus_id: host.read_affinity(bus_id, self._root)) if self._nvml else ((), ())
        )

    def _source(self) -> str:
        if self._nvml is None:
            return "no GPU driver"
        return f"NVML; {self._nvml.missing} GPUs do not answer" if self._nvml.missing else "NVML"

    def _sample(self, now_s: float, seq: int) -> NodeSample:
        before, self._cpu_before = self._cpu_before, host.read_cpu_times(self._root)
        gpus: tuple[GpuSample, ...] = self._nvml.samples() if self._nvml else ()
        return NodeSample(
            node=self._node,
            at_s=now_s,
            seq=seq,
            cpu=host.busy_frac(before, self._cpu_before),
            memory_used_bytes=host.read_memory_used_bytes(self._root),
            gpus=gpus,
        )
