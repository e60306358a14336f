"""The newest sample of each node as gauges on /metrics. Unknown is NaN: a 0 would be a claim."""

import math

from prometheus_client import Gauge

from gpuyard.contracts.hardware import GpuSample, NodeSample
from gpuyard.telemetry.metrics import Metrics

_GPU = {
    "utilisation": ("gpuyard_gpu_utilisation", "Part of the last second with a kernel running, 0 to 1."),
    "memory_used_bytes": ("gpuyard_gpu_memory_used_bytes", "GPU memory in use."),
    "power_w": ("gpuyard_gpu_power_watts", "Power drawn."),
    "temperature_c": ("gpuyard_gpu_temperature_celsius", "Temperature of the chip."),
}
_NODE = {
    "cpu": ("gpuyard_node_cpu", "Busy part of all CPUs, 0 to 1."),
    "memory_used_bytes": ("gpuyard_node_memory_used_bytes", "Main memory in use."),
}


class Gauges:
    """Shows samples. A GPU that is gone takes its gauges with it."""

    def __init__(self, metrics: Metrics, node: str) -> None:
        self._node = node
        self._of_gpu = {field: metrics.gauge(*text, ("node", "gpu")) for field, text in _GPU.items()}
        self._of_node = {field: metrics.gauge(*text, ("node",)) for field, text in _NODE.items()}
        self._count = metrics.gauge("gpuyard_node_gpus", "GPUs that answer.", ("node",))
        self._shown: frozenset[str] = frozenset()

    def show(self, sample: NodeSample) -> None:
        for field, gauge in self._of_node.items():
            _set(gauge.labels(self._node), getattr(sample, field))
        self._count.labels(self._node).set(len(sample.gpus))
        for gpu in sample.gpus:
            self._show_gpu(gpu)
        self._forget(self._shown - {gpu.uuid for gpu in sample.gpus})
        self._shown = frozenset(gpu.uuid for gpu in sample.gpus)

    def _show_gpu(self, gpu: GpuSample) -> None:
        for field, gauge in self._of_gpu.items():
            _set(gauge.labels(self._node, gpu.uuid), getattr(gpu, field))

    def _forget(self, uuids: frozenset[str]) -> None:
        for uuid in uuids:
            for gauge in self._of_gpu.values():
                gauge.remove(self._node, uuid)


def _set(gauge: Gauge, value: float | None) -> None:
    gauge.set(math.nan if value is None else value)
