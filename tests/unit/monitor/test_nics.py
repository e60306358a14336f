"""Network cards in a made-up tree of the kernel's devices."""

from pathlib import Path

import pytest

from gpuyard.contracts.hardware import Level, Nic
from gpuyard_monitor.nics import read_nics

SWITCH = "pci0000:3a/0000:3a:00.0/0000:3b:00.0"
GPUS = {
    "0000:3e:00.0": (f"{SWITCH}/0000:3c:10.0", 0),
    "0000:5e:00.0": ("pci0000:5d/0000:5d:00.0", 0),
    "0000:d8:00.0": ("pci0000:d7/0000:d7:00.0", 1),
}
BUS_IDS = ["00000000:3E:00.0", "00000000:5E:00.0", "00000000:D8:00.0"]


def add_device(root: Path, name: str, behind: str, numa: int) -> Path:
    device = root / "sys/devices" / behind / name
    device.mkdir(parents=True)
    (device / "numa_node").write_text(f"{numa}\n")
    listed = root / "sys/bus/pci/devices"
    listed.mkdir(parents=True, exist_ok=True)
    (listed / name).symlink_to(device)
    return device


def add_card(root: Path, kind: str, name: str, device: Path) -> None:
    """The class's entry is a link to a folder below the device, as the kernel has it."""
    folder = device / kind / name
    folder.mkdir(parents=True)
    (folder / "device").symlink_to(device)
    listed = root / "sys/class" / kind
    listed.mkdir(parents=True, exist_ok=True)
    (listed / name).symlink_to(folder)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, (behind, numa) in GPUS.items():
        add_device(tmp_path, name, behind, numa)
    return tmp_path


def test_cards_and_how_near_they_are(root: Path) -> None:
    near = add_device(root, "0000:3f:00.0", f"{SWITCH}/0000:3c:14.0", 0)
    add_card(root, "net", "eth7", add_device(root, "0000:d9:00.0", "pci0000:d7/0000:d7:01.0", 1))
    add_card(root, "net", "ibs3", near)
    add_card(root, "infiniband", "mlx5_3", near)
    assert read_nics(BUS_IDS, root) == (
        Nic("mlx5_3", (Level.SINGLE_SWITCH, Level.SAME_NODE, Level.SYSTEM)),
        Nic("eth7", (Level.SYSTEM, Level.SYSTEM, Level.HOST_BRIDGE)),
    )


def test_only_physical_cards_count(root: Path) -> None:
    card = add_device(root, "0000:3f:00.0", f"{SWITCH}/0000:3c:14.0", 0)
    part = add_device(root, "0000:3f:00.2", f"{SWITCH}/0000:3c:14.0", 0)
    (part / "physfn").symlink_to(card)
    add_card(root, "net", "eth0", card)
    add_card(root, "net", "eth0v1", part)
    virtual = root / "sys/devices/virtual/net/docker0"
    virtual.mkdir(parents=True)
    (root / "sys/class/net/docker0").symlink_to(virtual)
    (root / "sys/class/net/bonding_masters").write_text("\n")
    assert [nic.name for nic in read_nics(BUS_IDS, root)] == ["eth0"]


def test_a_gpu_that_the_kernel_does_not_show_has_no_level(root: Path) -> None:
    add_card(root, "net", "eth0", add_device(root, "0000:3f:00.0", f"{SWITCH}/0000:3c:14.0", 0))
    assert read_nics(["00000000:77:00.0", BUS_IDS[0], ""], root) == (
        Nic("eth0", (None, Level.SINGLE_SWITCH, None)),
    )


def test_a_numa_node_that_the_firmware_does_not_tell(root: Path) -> None:
    add_card(root, "net", "eth0", add_device(root, "0000:80:00.0", "pci0000:7f/0000:7f:00.0", -1))
    assert read_nics(BUS_IDS, root) == (Nic("eth0", (None, None, None)),)


def test_a_machine_without_cards_or_without_sys(tmp_path: Path) -> None:
    assert read_nics(BUS_IDS, tmp_path) == ()


def test_the_real_machine_can_be_read() -> None:
    assert all(nic.levels == () for nic in read_nics([]))
