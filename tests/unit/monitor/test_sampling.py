from dataclasses import replace

from gpuyard_monitor.core.readings import Reading
from gpuyard_monitor.core.sampling import read_on, sample_of

FIRST = Reading("g0", nvlink_tx_bytes=1000, nvlink_rx_bytes=0, pcie_tx_bytes_s=5.0, ecc_corrected=3)


def test_a_rate_needs_two_readings() -> None:
    first = read_on(None, FIRST, 10.0, paced=True)
    assert sample_of(first, None).nvlink_tx_bytes_s is None
    second = read_on(first, replace(FIRST, nvlink_tx_bytes=5000), 12.0, paced=True)
    assert (second.nvlink_tx_bytes_s, second.nvlink_rx_bytes_s) == (2000.0, 0.0)


def test_a_counter_that_was_set_back_or_is_gone_tells_nothing() -> None:
    first = read_on(None, FIRST, 10.0, paced=True)
    assert read_on(first, replace(FIRST, nvlink_tx_bytes=10), 11.0, paced=True).nvlink_tx_bytes_s is None
    assert read_on(first, Reading("g0"), 11.0, paced=True).nvlink_tx_bytes_s is None
    assert read_on(first, FIRST, 10.0, paced=True).nvlink_tx_bytes_s is None


def test_costly_values_stand_until_they_are_asked_for_again() -> None:
    first = read_on(None, FIRST, 10.0, paced=True)
    between = read_on(first, Reading("g0", utilisation=0.5), 11.0, paced=False)
    sample = sample_of(between, ())
    assert (sample.utilisation, sample.pcie_tx_bytes_s, sample.ecc_corrected) == (0.5, 5.0, 3)
    after = sample_of(read_on(between, Reading("g0"), 12.0, paced=True), None)
    assert (after.pcie_tx_bytes_s, after.ecc_corrected) == (None, None)


def test_after_a_loss_nothing_stands() -> None:
    first = read_on(None, FIRST, 10.0, paced=True)
    lost = read_on(first, Reading("g0", lost=True), 11.0, paced=False)
    back = read_on(lost, Reading("g0", nvlink_tx_bytes=9000), 12.0, paced=False)
    assert sample_of(back, None).pcie_tx_bytes_s is None
    assert back.nvlink_tx_bytes_s is None
