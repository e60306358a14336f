"""What was measured on a machine, as others see it on the bus."""

import pytest

from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.figures import Figures, PairFigure
from gpuyard.contracts.hardware import Basis
from gpuyard.contracts.history import History, HistoryQuery
from gpuyard.contracts.subjects import (
    FIGURES,
    FIGURES_STREAM,
    HISTORY_QUERY,
    REJECTED,
    REJECTS_STREAM,
)
from tests.unit.monitor.fake_nvml import FakeDriver, uuid
from tests.unit.monitor.machines import Yard


async def test_figures_enter_the_inventory_and_stay(box: FakeDriver, yard: Yard) -> None:
    await yard.bus.ensure((FIGURES_STREAM, REJECTS_STREAM))
    figures = Figures("n1", yard.clock.now(), "probe-1", (PairFigure(uuid(1), uuid(0), 251.5),))
    async with yard.monitor() as samples:
        await yard.bus.append(FIGURES(node="n1"), encode(figures))
        measured = await yard.passes(samples, lambda now: now.probed_at_s is not None)
        assert (measured.links[0].gb_s, measured.links[0].basis) == (251.5, Basis.MEASURED)
        assert measured.links[1].basis is not Basis.MEASURED
        await samples.after(61.0)
    async with yard.monitor():
        assert (await yard.inventory("n1"))[0].links == measured.links
    assert await yard.events() == [("probed", None)]


async def test_figures_that_can_not_be_true_are_set_aside(box: FakeDriver, yard: Yard) -> None:
    await yard.bus.ensure((FIGURES_STREAM, REJECTS_STREAM))
    wrong = Figures("n1", yard.clock.now(), "probe-1", (PairFigure(uuid(1), uuid(0), 99_999.0),))
    async with yard.monitor():
        await yard.bus.append(FIGURES(node="n1"), encode(wrong))
        await yard.bus.append(FIGURES(node="n1"), b"\xc1")
        counted = 'gpuyard_rejected_total{subject="gpuyard.figures"}'
        await yard.until(lambda: counted in yard.metrics.render().decode() and yard.metric(counted) == 2)
        assert (await yard.inventory("n1"))[0].probed_at_s is None
        assert await yard.bus.last(REJECTS_STREAM, REJECTED(stream="figures"))


async def test_the_last_hour_is_answered(box: FakeDriver, yard: Yard) -> None:
    async with yard.monitor() as samples:
        for _ in range(5):
            await samples.after(1.0)
        question = encode(HistoryQuery(last_s=6, step_s=2))
        answer = await yard.bus.request(HISTORY_QUERY(node="n1"), question, timeout_s=5.0)
        history: History = decode(answer.payload, HISTORY_QUERY.answer)
        assert [gpu.uuid for gpu in history.gpus] == [uuid(index) for index in range(8)]
        assert history.gpus[3].utilisation == pytest.approx((0.3, 0.3, 0.3))
        bad = await yard.bus.request(HISTORY_QUERY(node="n1"), b"\xc1", timeout_s=5.0)
        assert decode(bad.payload, HISTORY_QUERY.answer).code == "invalid"


async def test_samples_carry_all_that_the_driver_tells(box: FakeDriver, yard: Yard) -> None:
    gpu = box.gpus[0]
    gpu.pcie_tx_kb_s, gpu.ecc_corrected, gpu.clock_reasons = 1000, 3, 0x4
    async with yard.monitor() as samples:
        gpu.nvlink_tx_kib += 2048
        sample = (await samples.after(1.0)).gpus[0]
        assert sample.nvlink_tx_bytes_s == 2048 * 1024
        assert sample.nvlink_rx_bytes_s == 0
        assert (sample.pcie_tx_bytes_s, sample.ecc_corrected) == (1_000_000, 3)
        assert sample.clock_reasons == ("power_cap",)
        asked = box.asked("nvmlDeviceGetPcieThroughput")
        for _ in range(8):
            await samples.after(1.0)
        assert box.asked("nvmlDeviceGetPcieThroughput") - asked == 2 * 2 * 8


async def test_a_link_that_corrupts_carries_nothing_until_it_is_found_sound(
    box: FakeDriver, yard: Yard
) -> None:
    await yard.bus.ensure((FIGURES_STREAM, REJECTS_STREAM))
    corrupt = Figures("n1", yard.clock.now(), "probe-1", (PairFigure(uuid(3), uuid(0), 14.0, sound=False),))
    async with yard.monitor() as samples:
        before = (await yard.inventory("n1"))[0]
        await yard.bus.append(FIGURES(node="n1"), encode(corrupt))
        marked = await yard.passes(samples, lambda now: now.probed_at_s is not None)
        (link,) = (link for link in marked.links if (link.a, link.b) == (0, 3))
        assert (link.gb_s, link.p2p, link.basis) == (0.0, False, Basis.MEASURED)
        assert "GPUs 0-3 arrive wrong" in marked.advice
        await samples.after(61.0)
    async with yard.monitor() as samples:
        await samples.after(1.0)
        again = (await yard.inventory("n1"))[0]
        assert (again.links, again.advice) == (marked.links, marked.advice)
        sound = Figures("n1", yard.clock.now(), "probe-2", (PairFigure(uuid(0), uuid(3), 251.5),))
        await yard.bus.append(FIGURES(node="n1"), encode(sound))
        well = await yard.passes(samples, lambda now: now.probed_at_s == sound.at_s)
        (link,) = (link for link in well.links if (link.a, link.b) == (0, 3))
        assert (link.gb_s, link.p2p, well.advice) == (251.5, True, before.advice)
