"""The newest values of each node as gauges on /metrics. Unknown is NaN: a 0 would be a claim."""

import math
from collections.abc import Iterable, Mapping

from prometheus_client import Gauge

from gpuyard.contracts.hardware import GpuSample, Health, Inventory, NodeSample
from gpuyard.telemetry.metrics import Metrics

_GPU = {
    "utilisation": ("gpuyard_gpu_utilisation", "Part of the last second with a kernel running, 0 to 1."),
    "memory_used_bytes": ("gpuyard_gpu_memory_used_bytes", "GPU memory in use."),
    "power_w": ("gpuyard_gpu_power_watts", "Power drawn."),
    "temperature_c": ("gpuyard_gpu_temperature_celsius", "Temperature of the chip."),
    "pcie_tx_bytes_s": ("gpuyard_gpu_pcie_sent_bytes_per_second", "Sent over PCIe."),
    "pcie_rx_bytes_s": ("gpuyard_gpu_pcie_received_bytes_per_second", "Received over PCIe."),
    "nvlink_tx_bytes_s": ("gpuyard_gpu_nvlink_sent_bytes_per_second", "Sent over NVLink."),
    "nvlink_rx_bytes_s": ("gpuyard_gpu_nvlink_received_bytes_per_second", "Received over NVLink."),
    "ecc_uncorrected": ("gpuyard_gpu_ecc_uncorrected", "Memory errors not corrected since boot."),
}
_NODE = {
    "cpu": ("gpuyard_node_cpu", "Busy part of all CPUs, 0 to 1."),
    "memory_used_bytes": ("gpuyard_node_memory_used_bytes", "Main memory in use."),
}


class Gauges:
    """Shows one node. A GPU that is gone takes its gauges with it."""

    def __init__(self, metrics: Metrics, node: str) -> None:
        self._node = node
        self._of_gpu = {field: metrics.gauge(*text, ("node", "gpu")) for field, text in _GPU.items()}
        self._of_node = {field: metrics.gauge(*text, ("node",)).labels(node) for field, text in _NODE.items()}
        self._count = metrics.gauge("gpuyard_node_gpus", "GPUs that answer.", ("node",)).labels(node)
        self._in_service = metrics.gauge(
            "gpuyard_gpu_in_service", "1 if work may be placed on it, else 0.", ("node", "gpu")
        )
        self._rows: dict[str, Mapping[str, Gauge]] = {}
        self._known: frozenset[str] = frozenset()

    def show(self, sample: NodeSample) -> None:
        for field, gauge in self._of_node.items():
            _set(gauge, getattr(sample, field))
        self._count.set(len(sample.gpus))
        for gpu in sample.gpus:
            self._show_gpu(gpu)
        self._forget(self._rows.keys() - {gpu.uuid for gpu in sample.gpus})

    def show_health(self, inventory: Inventory) -> None:
        for gpu in inventory.gpus:
            self._in_service.labels(self._node, gpu.uuid).set(gpu.health is Health.OK)
        known = frozenset(gpu.uuid for gpu in inventory.gpus)
        for uuid in self._known - known:
            self._in_service.remove(self._node, uuid)
        self._known = known

    def _show_gpu(self, gpu: GpuSample) -> None:
        row = self._rows.get(gpu.uuid)
        if row is None:
            row = {field: gauge.labels(self._node, gpu.uuid) for field, gauge in self._of_gpu.items()}
            self._rows[gpu.uuid] = row
        for field, gauge in row.items():
            _set(gauge, getattr(gpu, field))

    def _forget(self, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            del self._rows[uuid]
            for gauge in self._of_gpu.values():
                gauge.remove(self._node, uuid)


def _set(gauge: Gauge, value: float | None) -> None:
    gauge.set(math.nan if value is None else value)
