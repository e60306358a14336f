"""The monitor's NVML reader on the real binding, over a C library that stands in for the driver's."""

import asyncio
import sys
import threading

import pynvml
import pytest
import structlog

from gpuyard.contracts.codec import validated
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.hardware import Gpu, GpuProcess, GpuSample, Level, Link
from gpuyard.topology.matrix_text import Affinity
from gpuyard_monitor.machine import Machine
from gpuyard_monitor.nvml import Nvml
from tests.unit.monitor import fake_nvml
from tests.unit.monitor.fake_nvml import FakeDriver, bus

pytestmark = pytest.mark.skipif(fake_nvml.compiler() is None, reason="needs a C compiler")

NOT_LOADED = 9
SWITCH = b"00000000:C0:00.0"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return fake_nvml.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def driver(library: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """Put in place of the library that the binding would load, or has loaded on a machine with GPUs."""
    monkeypatch.setattr(pynvml, "nvmlLib", library.library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    library.install(4)
    library.answer_init(0)
    return library


def found(nvml: Nvml) -> tuple[tuple[Gpu, ...], tuple[Link, ...]]:
    return nvml.find(lambda bus_id: Affinity(f"0-{int(bus_id[9:11], 16)}", 1))


def uuid(index: int) -> str:
    return f"GPU-{index:08d}-0000-0000-0000-000000000000"


def label_of(nvml: Nvml, a: int, b: int) -> str:
    return next(link.label for link in found(nvml)[1] if (link.a, link.b) == (a, b))


def test_what_the_gpus_are(driver: FakeDriver) -> None:
    nvml = Nvml()
    gpus, _ = found(nvml)
    assert nvml.driver() == "580.1"
    assert gpus[1] == Gpu(uuid(1), 1, "NVIDIA A100-SXM4-80GB", 80 << 30, 1, "0-17")
    assert [gpu.index for gpu in gpus] == [0, 1, 2, 3]
    assert nvml.missing == 0


def test_how_the_gpus_are_doing(driver: FakeDriver) -> None:
    nvml = Nvml()
    found(nvml)
    driver.gpus[2].pid_count = 2
    driver.gpus[2].pids[:2] = [41, 42]
    samples = nvml.samples()
    assert samples[2] == GpuSample(uuid(2), 0.2, 2 << 30, 100.502, 32, (GpuProcess(41), GpuProcess(42)))
    assert samples[0].utilisation == 0.0
    assert samples[0].processes == ()


def test_what_is_not_supported_is_unknown(driver: FakeDriver) -> None:
    driver.gpus[1].bare = 1
    nvml = Nvml()
    found(nvml)
    assert nvml.samples()[1] == GpuSample(uuid(1), None, 1 << 30, None, None, None)
    assert nvml.samples()[2].utilisation == 0.2


@pytest.mark.parametrize(
    ("value", "level"), list(zip((0, 10, 20, 30, 40, 50, -1, 77), (*Level, None, None), strict=True))
)
def test_pcie_levels(driver: FakeDriver, value: int, level: Level | None) -> None:
    driver.levels[0][1] = value
    _, links = found(Nvml())
    assert links[0].level == level


def test_bandwidth_comes_from_the_model(driver: FakeDriver) -> None:
    driver.wire(0, bus(1), bus(1))
    driver.wire(1, bus(0), bus(0))
    by_pair = {(link.a, link.b): link.gb_s for link in found(Nvml())[1]}
    assert by_pair[0, 1] == pytest.approx(2 * 22.8)
    assert by_pair[2, 3] == 21.5
    driver.gpus[3].name = b"NVIDIA L40S"
    assert {link.gb_s for link in found(Nvml())[1]} == {None}


def test_directly_wired_nvlinks_are_counted_for_each_pair(driver: FakeDriver) -> None:
    driver.wire(0, bus(1), bus(1), bus(2))
    driver.wire(1, bus(0), bus(0))
    driver.wire(2, bus(0))
    nvml = Nvml()
    assert label_of(nvml, 0, 1) == "NV2"
    assert label_of(nvml, 0, 2) == "NV1"
    assert label_of(nvml, 1, 2) == "SYS"


def test_a_link_up_on_one_side_only_does_not_count(driver: FakeDriver) -> None:
    driver.wire(0, bus(1), bus(1))
    driver.wire(1, bus(0), bus(0))
    driver.gpus[1].down[0] = 1
    assert label_of(Nvml(), 0, 1) == "NV1"


@pytest.mark.parametrize("remote", [SWITCH, b""], ids=["switch seen", "far end hidden"])
def test_behind_a_switch_every_pair_has_all_links(driver: FakeDriver, remote: bytes) -> None:
    for index in range(4):
        driver.wire(index, *[remote] * 12, kind=2)
    driver.gpus[3].down[0] = 1
    labels = {(link.a, link.b): link.label for link in found(Nvml())[1]}
    assert (labels[0, 1], labels[0, 3]) == ("NV12", "NV11")


def test_a_switch_that_does_not_join_two_gpus_is_no_link(driver: FakeDriver) -> None:
    for index in range(4):
        driver.wire(index, *[SWITCH] * 12, kind=2)
    driver.p2p[1][0] = 3
    labels = {(link.a, link.b): link.label for link in found(Nvml())[1]}
    assert (labels[0, 1], labels[0, 2]) == ("SYS", "NV12")


def test_peer_to_peer_needs_both_ways(driver: FakeDriver) -> None:
    driver.p2p[1][0] = 2
    driver.p2p[2][3] = -1
    by_pair = {(link.a, link.b): link.p2p for link in found(Nvml())[1]}
    assert (by_pair[0, 1], by_pair[0, 2], by_pair[2, 3]) == (False, True, None)


def test_a_lost_gpu_removes_only_itself(driver: FakeDriver) -> None:
    nvml = Nvml()
    found(nvml)
    driver.gpus[1].lost = 1
    assert [sample.uuid for sample in nvml.samples()] == [uuid(0), uuid(2), uuid(3)]
    gpus, links = found(nvml)
    assert [gpu.index for gpu in gpus] == [0, 2, 3]
    assert [(link.a, link.b) for link in links] == [(0, 1), (0, 2), (1, 2)]
    assert nvml.missing == 1
    driver.gpus[1].lost = 0
    assert len(found(nvml)[0]) == 4


@pytest.mark.parametrize("code", [NOT_LOADED, 12, 18, 999])
def test_a_driver_that_does_not_answer_is_unavailable(driver: FakeDriver, code: int) -> None:
    driver.answer_init(code)
    with pytest.raises(Unavailable, match="the NVIDIA driver does not answer"):
        Nvml()


async def test_the_machine_joins_host_and_gpus(driver: FakeDriver) -> None:
    machine = Machine("n1", structlog.get_logger())
    inventory = validated(await machine.inventory(5.0))
    assert len(inventory.gpus) == 4
    assert len(inventory.links) == 6
    assert (inventory.at_s, inventory.host.driver, inventory.source) == (5.0, "580.1", "NVML")
    assert inventory.host.cpus
    assert not inventory.simulated
    sample = validated(await machine.sample(6.0, 7))
    assert (sample.at_s, sample.seq, len(sample.gpus)) == (6.0, 7, 4)
    driver.gpus[0].lost = 1
    assert (await machine.inventory(7.0)).source == "NVML; 1 GPUs do not answer"


async def test_a_machine_without_driver_says_so_once_and_asks_again(driver: FakeDriver) -> None:
    driver.answer_init(NOT_LOADED)
    with structlog.testing.capture_logs() as logs:
        machine = Machine("n1", structlog.get_logger())
        assert (await machine.inventory(1.0)).gpus == ()
        assert (await machine.inventory(2.0)).source == "no GPU driver"
        assert (await machine.sample(3.0, 0)).gpus == ()
    assert [entry["event"] for entry in logs] == ["no GPUs"]
    driver.answer_init(0)
    assert len((await machine.inventory(4.0)).gpus) == 4


def test_without_the_binding_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(Unavailable, match="nvidia-ml-py is missing"):
        Nvml()


async def test_a_driver_that_stalls_does_not_stall_the_loop(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine("n1", structlog.get_logger())
    await machine.inventory(0.0)
    loop, stalled, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def stall(nvml: Nvml) -> tuple[GpuSample, ...]:
        loop.call_soon_threadsafe(stalled.set)
        assert go_on.wait(60)
        return ()

    monkeypatch.setattr(Nvml, "samples", stall)
    sampling = asyncio.ensure_future(machine.sample(1.0, 0))
    await stalled.wait()
    assert not sampling.done()
    go_on.set()
    assert (await sampling).gpus == ()
