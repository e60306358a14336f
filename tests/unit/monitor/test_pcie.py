import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.hardware import Level
from gpuyard_monitor.core.pcie import level, place

DEVICES = "/sys/devices/"
GPU = "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:10.0/0000:3e:00.0"
NAMES = st.integers(0, 3).map(lambda n: f"0000:0{n}:00.0")
PLACES = st.builds(
    lambda root, steps: (f"pci0000:{root}0", *steps),
    st.integers(0, 2),
    st.lists(NAMES, min_size=1, max_size=4),
)
NUMAS = st.none() | st.integers(0, 1)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:14.0/0000:3f:00.0", Level.SINGLE_SWITCH),
        ("pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:10.0/0000:3e:00.1", Level.SINGLE_SWITCH),
        (
            "pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:14.0/0000:40:00.0/0000:41:00.0/0000:42:00.0",
            Level.MULTI_SWITCH,
        ),
        ("pci0000:3a/0000:3a:02.0/0000:43:00.0", Level.HOST_BRIDGE),
        ("pci0000:5d/0000:5d:00.0/0000:5e:00.0", Level.SAME_NODE),
    ],
)
def test_levels_by_where_the_paths_part(other: str, expected: Level) -> None:
    one, two = place(DEVICES + GPU), place(DEVICES + other)
    assert one
    assert two
    assert level(one, two, 0, 0) is expected
    assert level(two, one, 0, 0) is expected


def test_under_different_host_bridges_the_numa_nodes_decide() -> None:
    one, two = place(DEVICES + GPU), place(DEVICES + "pci0000:d7/0000:d7:00.0/0000:d8:00.0")
    assert one
    assert two
    assert level(one, two, 0, 1) is Level.SYSTEM
    assert level(one, two, 1, 1) is Level.SAME_NODE
    assert level(one, two, None, 1) is None
    assert level(one, two, None, None) is None


def test_a_place_starts_at_the_host_bridge_wherever_that_hangs() -> None:
    within = "/sys/devices/LNXSYSTM:00/ACPI0004:00/VMBUS:00/47505500-0001/pci0001:00/0001:00:00.0"
    assert place(within) == ("pci0001:00", "0001:00:00.0")
    assert place("/sys/devices/pci10000:e0/10000:e0:01.0/10000:e1:00.0") is not None


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/sys/devices/virtual/net/lo",
        "/sys/devices/pci0000:00",
        "/sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0",
        "/sys/devices/pci0000:00/0000:00:03.0/virtio0",
    ],
)
def test_what_is_no_pci_device_has_no_place(path: str) -> None:
    assert place(path) is None


@given(PLACES, PLACES, NUMAS, NUMAS)
def test_both_ways_are_the_same(
    a: tuple[str, ...], b: tuple[str, ...], numa_a: int | None, numa_b: int | None
) -> None:
    assert level(a, b, numa_a, numa_b) is level(b, a, numa_b, numa_a)
