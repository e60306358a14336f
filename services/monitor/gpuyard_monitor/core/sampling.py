"""What is told of a GPU each second, from readings.

The driver gives NVLink traffic as running counters, so a rate needs two readings. Some values cost the driver
so much that they are asked for every few seconds only; in between the last one stands.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuyard.contracts.hardware import GpuProcess, GpuSample
from gpuyard_monitor.core.readings import Reading

PACED = ("pcie_tx_bytes_s", "pcie_rx_bytes_s", "ecc_corrected", "ecc_uncorrected")


@dataclass(frozen=True, slots=True)
class Instruments:
    """The newest reading of a GPU, with what stands from earlier ones, and its NVLink traffic."""

    reading: Reading
    mono_s: float
    nvlink_tx_bytes_s: float | None = None
    nvlink_rx_bytes_s: float | None = None


def read_on(before: Instruments | None, reading: Reading, mono_s: float, paced: bool) -> Instruments:
    """The instruments after another reading; `paced`: it holds the costly values too."""
    if before is None or reading.lost:
        return Instruments(reading, mono_s)
    passed_s, last = mono_s - before.mono_s, before.reading
    return Instruments(
        reading if paced else replace(reading, **{name: getattr(last, name) for name in PACED}),
        mono_s,
        _rate(last.nvlink_tx_bytes, reading.nvlink_tx_bytes, passed_s),
        _rate(last.nvlink_rx_bytes, reading.nvlink_rx_bytes, passed_s),
    )


def sample_of(instruments: Instruments, processes: Sequence[GpuProcess] | None) -> GpuSample:
    reading = instruments.reading
    return GpuSample(
        reading.uuid,
        reading.utilisation,
        reading.memory_used_bytes,
        reading.power_w,
        reading.temperature_c,
        None if processes is None else tuple(processes),
        reading.clock_reasons,
        reading.pcie_tx_bytes_s,
        reading.pcie_rx_bytes_s,
        instruments.nvlink_tx_bytes_s,
        instruments.nvlink_rx_bytes_s,
        reading.ecc_corrected,
        reading.ecc_uncorrected,
    )


def _rate(before: int | None, after: int | None, passed_s: float) -> float | None:
    """None where it can't be told: no counter, no time passed, or the counter was set back."""
    if before is None or after is None or passed_s <= 0 or after < before:
        return None
    return round((after - before) / passed_s, 1)
