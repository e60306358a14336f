"""What is followed of one GPU from second to second: its health, its traffic, who uses it."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from gpuyard.contracts.hardware import Gpu, GpuProcess, GpuSample
from gpuyard_monitor.core import foreign
from gpuyard_monitor.core.health import Chart, Moment, verdict
from gpuyard_monitor.core.readings import Reading
from gpuyard_monitor.core.rules import Known
from gpuyard_monitor.core.sampling import Instruments, read_on, sample_of


class Ward:
    """One GPU. `known` is what the hardware says of it."""

    def __init__(self) -> None:
        self.known = Known()
        self.chart = Chart()
        self._instruments: Instruments | None = None
        self._processes: tuple[GpuProcess, ...] | None = None
        self._strangers: foreign.Seen | None = None
        self._complaint = ""

    def see(self, reading: Reading, now: Moment, *, paced: bool) -> None:
        self.chart = self.chart.after_reading(reading, self.known, now)
        self._instruments = read_on(self._instruments, reading, now.mono_s, paced)

    def see_processes(
        self,
        reading: Reading,
        origins: Mapping[int, foreign.Origin],
        holders: Collection[str] | None,
        tolerated: Collection[str],
        mono_s: float,
    ) -> None:
        """Where the driver does not tell who uses it, the verdict stays; a lost GPU is used by nobody."""
        self._processes = None
        if reading.processes is None and not reading.lost:
            return
        self._processes = foreign.owned(reading.processes or (), origins, holders)
        self._strangers = foreign.strangers(self._strangers, self._processes, tolerated, mono_s)
        self._complaint = foreign.complaint(self._strangers, self._processes, mono_s)

    def sample(self) -> GpuSample | None:
        """None while it is lost, or was never read."""
        if self._instruments is None or self._instruments.reading.lost:
            return None
        return sample_of(self._instruments, self._processes)

    def shown(self, gpu: Gpu, trouble: str) -> Gpu:
        """The GPU with its health."""
        health, reason = verdict(self.chart.faults, trouble, self._complaint)
        return replace(gpu, health=health, health_reason=reason, faults=tuple(self.chart.faults.values()))
