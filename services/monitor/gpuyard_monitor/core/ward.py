"""What is followed of one GPU from second to second: its health, its traffic, who uses it."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from gpuyard.contracts.hardware import Fault, Gpu, GpuProcess, GpuSample
from gpuyard_monitor.core import foreign, xids
from gpuyard_monitor.core.health import Chart, Moment, recalled, verdict
from gpuyard_monitor.core.readings import Reading
from gpuyard_monitor.core.rules import Known, Rule
from gpuyard_monitor.core.sampling import Instruments, read_on, sample_of


class Ward:
    """One GPU. `known` is what the hardware says of it, `rules` are the health rules in force."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self.known = Known()
        self.chart = Chart()
        self._instruments: Instruments | None = None
        self._processes: tuple[GpuProcess, ...] | None = None
        self._strangers: foreign.Seen | None = None
        self._complaint = ""

    def see(self, reading: Reading, now: Moment, *, paced: bool) -> None:
        self.chart = self.chart.after_reading(reading, self.known, now, self._rules)
        self._instruments = read_on(self._instruments, reading, now.mono_s, paced)

    @property
    def is_lost(self) -> bool:
        """Whether it did not answer when it was last asked."""
        return self._instruments is not None and self._instruments.reading.lost

    def see_xid(self, number: int, now: Moment) -> bool:
        """Whether that takes the GPU out of service."""
        is_fault = number in xids.HARDWARE and any(rule.name == "xid" for rule in self._rules)
        if is_fault:
            self.chart = self.chart.after_xid(number, now)
        return is_fault

    def recall(self, faults: Iterable[Fault]) -> None:
        """Go on from what an earlier monitor knew."""
        self.chart = recalled(faults, self._rules).joined(self.chart)

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
        if self._instruments is None or self.is_lost:
            return None
        return sample_of(self._instruments, self._processes)

    def shown(self, gpu: Gpu, trouble: str) -> Gpu:
        """The GPU with its health."""
        health, reason = verdict(self.chart.faults, trouble, self._complaint)
        return replace(gpu, health=health, health_reason=reason, faults=tuple(self.chart.faults.values()))
