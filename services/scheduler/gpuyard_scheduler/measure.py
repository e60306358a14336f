"""What the scheduler tells about itself on /metrics."""

from gpuyard.telemetry.metrics import Metrics
from gpuyard_scheduler.core.machine import Machine


class Measures:
    def __init__(self, metrics: Metrics) -> None:
        self._decision_s = metrics.histogram(
            "gpuyard_scheduler_decision_seconds", "Time of one round of decisions."
        )
        self._skipped = metrics.counter("gpuyard_scheduler_skipped_events", "Events skipped for a bug.")
        self._queued = metrics.gauge("gpuyard_scheduler_queued_jobs", "Jobs that wait.")
        self._active = metrics.gauge("gpuyard_scheduler_active_jobs", "Jobs that have not ended.")
        self._nodes = metrics.gauge("gpuyard_scheduler_usable_nodes", "Nodes where work can be placed.")

    def stumbled(self) -> None:
        """Note an event that raised: a bug."""
        self._skipped.inc()

    def decided(self, seconds: float, machine: Machine) -> None:
        """Note a round of decisions and what it left behind."""
        self._decision_s.observe(seconds)
        self._queued.set(len(machine.waiting))
        self._active.set(len(machine.records.active))
        self._nodes.set(len(machine.cluster.usable()))
