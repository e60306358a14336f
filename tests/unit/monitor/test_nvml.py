"""What GPUs there are and how they are joined, on the real binding over a stand-in for the driver."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuyard.contracts.codec import validated
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.hardware import Basis, Fabric, Gpu, Inventory, Level, Link, MigInstance
from gpuyard.topology import captures
from gpuyard.topology.link_speed import described
from gpuyard_monitor.core.cpu_list import cpu_list
from gpuyard_monitor.core.readings import Found
from gpuyard_monitor.nvml import Nvml
from tests.unit.monitor import fake_nvml
from tests.unit.monitor.fake_nvml import GIB, HIDDEN, SWITCH, TO_CPU, TO_SWITCH, FakeDriver, uuid

NOWHERE = Path("/nonexistent")
"""A machine whose kernel tells nothing."""


def found() -> Found:
    return Nvml(NOWHERE).find()


def link(a: int, b: int) -> Link:
    return next(link for link in found().links if (link.a, link.b) == (a, b))


def test_what_a_gpu_is(driver: FakeDriver) -> None:
    driver.gpus[1].cpus[0], driver.gpus[1].numas = 0xFF0F, 2
    nvml = Nvml(NOWHERE)
    gpus = nvml.find().gpus
    assert nvml.driver() == "580.1"
    assert [gpu.index for gpu in gpus] == [0, 1, 2, 3]
    assert gpus[1] == Gpu(
        uuid(1),
        1,
        "NVIDIA A100-SXM4-80GB",
        80 * GIB,
        numa=1,
        cpus="0-3,8-15",
        bus_id="00000000:11:00.0",
        compute_capability="8.0",
        nvlinks=None,
        mig=False,
        power_limit_w=400.0,
    )
    validated(Inventory("n1", 0.0, gpus=gpus))


def test_what_the_kernel_tells_of_affinity_goes_before_the_driver(driver: FakeDriver, tmp_path: Path) -> None:
    driver.gpus[0].cpus[0], driver.gpus[0].numas = 0x1, 0x1
    folder = tmp_path / "sys/bus/pci/devices/0000:10:00.0"
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text("1\n")
    (folder / "local_cpulist").write_text("16-31\n")
    gpu = Nvml(tmp_path).find().gpus[0]
    assert (gpu.cpus, gpu.numa) == ("16-31", 1)


def test_a_gpu_near_several_numa_nodes_is_near_none(driver: FakeDriver) -> None:
    driver.gpus[0].numas = 0b11
    assert found().gpus[0].numa is None


def test_a_gpu_that_tells_next_to_nothing(driver: FakeDriver) -> None:
    driver.gpus[2].refuse(
        "nvmlDeviceGetName",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetCudaComputeCapability",
        "nvmlDeviceGetEnforcedPowerLimit",
        "nvmlDeviceGetCpuAffinity",
        "nvmlDeviceGetMemoryAffinity",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetNvLinkState",
    )
    assert found().gpus[2] == Gpu(uuid(2), 2, bus_id="00000000:12:00.0")


@pytest.mark.parametrize("name", captures.names())
def test_the_matrix_of_a_captured_machine(
    name: str, driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = captures.load(name)
    FakeDriver.of(capture, tmp_path).plug_into(monkeypatch)
    told = found()
    assert [(gpu.numa, gpu.cpus) for gpu in told.gpus] == [
        (each.numa, each.cpus and _ascending(each.cpus)) for each in capture.topology.gpus
    ]
    expected = described(capture.topology.links, capture.model)
    assert tuple(
        replace(mine, level=theirs.level) for mine, theirs in zip(told.links, expected, strict=True)
    ) == tuple(expected)
    assert all(theirs.level in (None, mine.level) for mine, theirs in zip(told.links, expected, strict=True))


def _ascending(cpus: str) -> str:
    """Captures may write neighbours as two ranges."""
    ranges = [part.partition("-") for part in cpus.split(",")]
    return cpu_list(
        sorted({cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1)})
    )


@pytest.mark.parametrize("level", Level)
def test_pcie_levels(driver: FakeDriver, level: Level) -> None:
    driver.set_level(0, 1, level)
    assert link(0, 1).level is level


@pytest.mark.parametrize("value", [-1, 77])
def test_a_level_that_the_driver_does_not_tell(driver: FakeDriver, value: int) -> None:
    driver.levels[0][1] = value
    assert link(0, 1).level is None
    assert link(0, 2).level is Level.SYSTEM


def test_bandwidth_comes_from_the_model(driver: FakeDriver) -> None:
    driver.join(0, 1, 2)
    assert link(0, 1).gb_s == pytest.approx(2 * 22.8)
    assert link(0, 1).basis is Basis.MODEL


def test_the_generation_of_links_is_asked_where_the_model_is_unknown(driver: FakeDriver) -> None:
    driver.install(2, b"NVIDIA Z900")
    driver.join(0, 1, 4, version=7)
    assert (link(0, 1).gb_s, link(0, 1).basis) == (4 * 41.5, Basis.MODEL)


def test_directly_wired_nvlinks_are_counted_for_each_pair(driver: FakeDriver) -> None:
    driver.join(0, 1, 2)
    driver.join(0, 2, 1)
    assert [link.label for link in found().links] == ["NV2", "NV1", "SYS", "SYS", "SYS", "SYS"]
    assert [gpu.nvlinks for gpu in found().gpus] == [3, 2, 1, None]
    assert not link(0, 1).switched


def test_ports_are_read_once_for_each_gpu(driver: FakeDriver) -> None:
    for index in range(4):
        driver.gpus[index].wire(*[SWITCH] * 12, kind=TO_SWITCH)
    found()
    assert driver.asked("nvmlDeviceGetNvLinkState") == 4 * 12


def test_a_link_up_on_one_side_only_does_not_count(driver: FakeDriver) -> None:
    driver.join(0, 1, 2)
    driver.gpus[1].ports[0].up = False
    assert link(0, 1).label == "NV1"
    assert [gpu.nvlinks for gpu in found().gpus[:2]] == [2, 1]


@pytest.mark.parametrize(
    ("remote", "kind"), [(SWITCH, TO_SWITCH), (b"", TO_SWITCH), (b"", HIDDEN), (b"", -1)], ids=str
)
def test_behind_a_switch_every_pair_has_all_links(driver: FakeDriver, remote: bytes, kind: int) -> None:
    """The switch is seen, or inside a virtual machine nothing is."""
    for index in range(4):
        driver.gpus[index].wire(*[remote] * 12, kind=kind)
    driver.gpus[3].ports[0].up = False
    assert [link.label for link in found().links] == ["NV12", "NV12", "NV11", "NV12", "NV11", "NV11"]
    assert link(0, 1).switched


def test_a_switch_that_does_not_join_two_gpus_is_no_link(driver: FakeDriver) -> None:
    for index in range(4):
        driver.gpus[index].wire(*[SWITCH] * 12, kind=TO_SWITCH)
    driver.p2p[2][1][0] = 3
    assert (link(0, 1).label, link(0, 2).label) == ("SYS", "NV12")


def test_old_drivers_tell_the_far_end_without_its_kind(driver: FakeDriver) -> None:
    driver.join(0, 1, 2)
    for index in (0, 1):
        driver.gpus[index].refuse("nvmlDeviceGetNvLinkRemoteDeviceType")
    assert link(0, 1).label == "NV2"


def test_links_to_a_cpu_join_no_gpus(driver: FakeDriver) -> None:
    driver.join(0, 1, 3)
    for index in range(4):
        driver.gpus[index].wire(b"", b"", b"", kind=TO_CPU)
    assert [link.label for link in found().links] == ["NV3", "SYS", "SYS", "SYS", "SYS", "SYS"]
    assert found().gpus[2].nvlinks == 3


def test_peer_to_peer_needs_reads_and_writes_both_ways(driver: FakeDriver) -> None:
    driver.p2p[0][1][0] = 2
    driver.p2p[1][0][2] = 4
    assert (link(0, 1).p2p, link(0, 2).p2p, link(2, 3).p2p) == (False, False, True)


def test_mig_instances_with_holes_between_them(driver: FakeDriver) -> None:
    driver.gpus[0].slice("MIG-one", 5 * GIB, at=1)
    driver.gpus[0].slice("MIG-two", 10 * GIB, at=4)
    driver.gpus[1].refuse("nvmlDeviceGetMigMode")
    gpus = found().gpus
    assert gpus[0].mig_instances == (MigInstance("MIG-one", 5 * GIB), MigInstance("MIG-two", 10 * GIB))
    assert [gpu.mig for gpu in gpus] == [True, None, False, False]


def test_the_nvlink_domain(driver: FakeDriver) -> None:
    named = driver.gpus[0]
    named.fabric_cluster[0], named.fabric_clique, named.fabric_state = 0xAB, 7, fake_nvml.FABRIC_COMPLETE
    driver.gpus[1].fabric_state = fake_nvml.FABRIC_COMPLETE
    driver.gpus[2].fabric_state = 2
    gpus = found().gpus
    assert gpus[0].fabric == Fabric("ab000000-0000-0000-0000-000000000000", 7)
    assert gpus[1].fabric == Fabric("", 0)
    assert gpus[2].fabric == Fabric("", 0, complete=False)
    assert gpus[3].fabric is None


@pytest.mark.parametrize("code", [fake_nvml.LOST, fake_nvml.UNKNOWN, fake_nvml.NO_PERMISSION])
def test_a_gpu_that_can_not_be_named_removes_only_itself(driver: FakeDriver, code: int) -> None:
    nvml = Nvml(NOWHERE)
    nvml.find()
    driver.gpus[1].lost, driver.gpus[1].lost_code = True, code
    told = nvml.find()
    assert [gpu.index for gpu in told.gpus] == [0, 2, 3]
    assert [(link.a, link.b) for link in told.links] == [(0, 1), (0, 2), (1, 2)]
    assert (told.count, told.missing) == (4, 1)
    driver.gpus[1].lost = False
    assert (len(nvml.find().gpus), nvml.find().missing) == (4, 0)


@pytest.mark.parametrize("calls", range(0, 40, 3))
def test_a_gpu_lost_in_the_middle_of_a_look(driver: FakeDriver, calls: int) -> None:
    driver.join(0, 1, 2)
    driver.gpus[1].calls_to_live = calls
    told = found()
    assert {0, 2, 3} <= {gpu.index for gpu in told.gpus}
    assert told.missing == 4 - len(told.gpus)
    assert len(told.links) == len(told.gpus) * (len(told.gpus) - 1) // 2


def test_a_count_that_shrinks(driver: FakeDriver) -> None:
    nvml = Nvml(NOWHERE)
    nvml.find()
    driver.count = 3
    told = nvml.find()
    assert (len(told.gpus), told.count, told.missing) == (3, 3, 0)


def test_no_gpus_at_all(driver: FakeDriver) -> None:
    driver.count = 0
    nvml = Nvml(NOWHERE)
    assert nvml.find() == Found()
    assert nvml.read(paced=True) == ()
    assert nvml.xids() == ()


def test_a_driver_that_can_not_count_is_not_a_machine_without_gpus(driver: FakeDriver) -> None:
    nvml = Nvml(NOWHERE)
    driver.version_code = fake_nvml.UNKNOWN
    with pytest.raises(Unavailable, match="how many GPUs"):
        nvml.find()
