"""What a logger does, as metrics."""

from gpuyard.contracts.log import LogBatch
from gpuyard.telemetry.metrics import Metrics
from gpuyard_logger.core.gather import Taken


class Measures:
    """Counters over all partitions of a logger."""

    def __init__(self, metrics: Metrics) -> None:
        self.store_errors = metrics.counter(
            "gpuyard_logger_store_errors_total", "Writes that the store refused."
        )
        self._lines = metrics.counter("gpuyard_logger_lines_total", "Lines taken in.")
        self._bytes = metrics.counter("gpuyard_logger_bytes_total", "Bytes of output taken in.")
        self._repeats = metrics.counter(
            "gpuyard_logger_repeated_batches_total", "Batches that held nothing new."
        )
        self._missing = metrics.counter("gpuyard_logger_missing_lines_total", "Lines that their writer lost.")

    def taken(self, batch: LogBatch | None, taken: Taken) -> None:
        new = taken.batch
        if new is not None:
            self._lines.inc(new.next_seq - new.first_seq)
            self._bytes.inc(sum(len(chunk.data) for chunk in new.chunks))
            self._missing.inc(taken.missing_lines)
        elif batch is not None:
            self._repeats.inc()
