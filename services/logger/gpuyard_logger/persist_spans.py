"""The span `logger.persist`: from a rank's first batch, and its end, being taken in to their being sealed."""

from opentelemetry.trace import Span

from gpuyard.bus.port import Message
from gpuyard.contracts.log import LogBatch
from gpuyard.telemetry.traces import start


class PersistSpans:
    """Those of one partition."""

    def __init__(self) -> None:
        self._open: list[Span] = []

    def take(self, message: Message, batch: LogBatch) -> None:
        """A batch was taken in; only the first and the last of a rank are traced."""
        if batch.first_seq == 0 or batch.end:
            self._open.append(
                start(
                    "logger.persist",
                    parent=message.headers,
                    job=batch.job,
                    attempt=batch.attempt,
                    rank=batch.rank,
                    next_seq=batch.next_seq,
                )
            )

    def begin(self) -> list[Span]:
        """Spans of what is sealed now; end them when it is."""
        spans, self._open = self._open, []
        return spans
