"""What the executor tells about itself on /metrics."""

from gpuyard.contracts.order import Order
from gpuyard.telemetry.metrics import Metrics
from gpuyard_executor.core.gangs import Gangs


class Measures:
    """One for each node."""

    def __init__(self, metrics: Metrics, node: str) -> None:
        self._node = node
        self._ranks = metrics.gauge("gpuyard_executor_ranks", "Ranks by state.", ("node", "state"))
        self._orders = metrics.counter("gpuyard_executor_orders", "Orders obeyed.", ("node", "kind"))
        self._refused = metrics.counter(
            "gpuyard_executor_refused_orders", "Orders refused.", ("node", "kind")
        )
        self._batches = metrics.counter("gpuyard_executor_batches", "Batches of output sent.", ("node",))
        self._output = metrics.counter("gpuyard_executor_output_bytes", "Output sent.", ("node",))
        self._spool = metrics.gauge("gpuyard_executor_spool_bytes", "Output on disk, sent or not.", ("node",))
        self._launch_s = metrics.histogram(
            "gpuyard_executor_launch_seconds", "From the prepare order to the first running rank.", ("node",)
        )

    def obeyed(self, order: Order) -> None:
        self._orders.labels(self._node, type(order).__name__.lower()).inc()

    def refused(self, order: Order) -> None:
        self._refused.labels(self._node, type(order).__name__.lower()).inc()

    def sent(self, size_bytes: int) -> None:
        """A batch is on the bus."""
        self._batches.labels(self._node).inc()
        self._output.labels(self._node).inc(size_bytes)

    def launched(self, seconds: float) -> None:
        self._launch_s.labels(self._node).observe(seconds)

    def stand(self, gangs: Gangs, spool_bytes: int) -> None:
        """Where everything stands now."""
        for state, count in gangs.states().items():
            self._ranks.labels(self._node, state).set(count)
        self._spool.labels(self._node).set(spool_bytes)
