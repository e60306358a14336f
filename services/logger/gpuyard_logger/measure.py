"""What a logger does, as metrics."""

from collections.abc import Callable, Mapping
from typing import Protocol

from gpuyard.contracts.log import LogBatch
from gpuyard.contracts.segment import Segment
from gpuyard.telemetry.metrics import Metrics
from gpuyard_logger.core.gather import Gather, Taken


class Owned(Protocol):
    """A partition that is measured."""

    gather: Gather


class Measures:
    """Counters over all partitions of a logger, and what those in `owned` hold at the moment."""

    def __init__(self, metrics: Metrics, owned: Mapping[int, Owned], monotonic: Callable[[], float]) -> None:
        counter, gauge = metrics.counter, metrics.gauge
        self.store_errors = counter("gpuyard_logger_store_errors_total", "Writes that the store refused.")
        self._lines = counter("gpuyard_logger_lines_total", "Lines taken in.")
        self._bytes = counter("gpuyard_logger_bytes_total", "Bytes of output taken in.")
        self._repeats = counter("gpuyard_logger_repeated_batches_total", "Batches that held nothing new.")
        self._missing = counter("gpuyard_logger_missing_lines_total", "Lines that their writer lost.")
        self._sealed = counter(
            "gpuyard_logger_sealed_segments_total", "Segments sealed, without merged ones."
        )
        self._sealed_bytes = counter("gpuyard_logger_sealed_bytes_total", "Bytes of them.")
        self._owned = owned
        self._monotonic = monotonic
        gauge("gpuyard_logger_partitions", "Partitions that this logger owns.").set_function(
            lambda: len(owned)
        )
        gauge("gpuyard_logger_open_bytes", "Memory of lines that are not sealed, about.").set_function(
            lambda: sum(one.gather.open_bytes for one in owned.values())
        )
        gauge("gpuyard_logger_open_seconds", "For how long the oldest of them waits.").set_function(
            self._waiting_s
        )

    def taken(self, batch: LogBatch | None, taken: Taken) -> None:
        new = taken.batch
        if new is not None:
            self._lines.inc(new.next_seq - new.first_seq)
            self._bytes.inc(sum(len(chunk.data) for chunk in new.chunks))
            self._missing.inc(taken.missing_lines)
        elif batch is not None:
            self._repeats.inc()

    def sealed(self, segment: Segment) -> None:
        self._sealed.inc()
        self._sealed_bytes.inc(segment.size_bytes)

    def _waiting_s(self) -> float:
        since_s = [one.gather.since_s for one in self._owned.values()]
        return max((self._monotonic() - at_s for at_s in since_s if at_s is not None), default=0.0)
