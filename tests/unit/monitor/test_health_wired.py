from gpuyard.contracts.hardware import Gpu
from gpuyard_monitor.core.wired import expected_nvlinks

A100, V100, RTX = "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-16GB", "NVIDIA GeForce RTX 3090"


def expected(model: str, *up: int | None) -> list[int | None]:
    gpus = [Gpu(f"g{index}", index, model, nvlinks=count) for index, count in enumerate(up)]
    return list(expected_nvlinks(gpus).values())


def test_boards_that_always_wire_all_should_have_all() -> None:
    assert expected(A100, 11, 0, None) == [12, 12, 12]
    assert expected("NVIDIA H100 80GB HBM3", 18, 17) == [18, 18]


def test_a_lone_gpu_in_a_virtual_machine_has_no_peers() -> None:
    assert expected("NVIDIA H200", 0) == [0]
    assert expected("NVIDIA H200", None) == [None]


def test_older_boards_leave_ports_open_unless_a_sister_shows_that_they_do_not() -> None:
    assert expected(V100, 3, 3, 4, 3) == [3, 3, 4, 3]
    assert expected(V100, 6, 5, 6, 6) == [6, 6, 6, 6]


def test_bridges_may_be_missing() -> None:
    assert expected(RTX, 4, 4, 0) == [4, 4, 0]
    assert expected("NVIDIA A100-PCIE-40GB", 12, 0) == [12, 0]


def test_nothing_is_expected_of_models_without_nvlink() -> None:
    assert expected("NVIDIA L40S", None, None) == [None, None]
    assert expected("something new", 7, None) == [7, None]


def test_sisters_are_of_the_same_model() -> None:
    gpus = [Gpu("g0", 0, V100, nvlinks=5), Gpu("g1", 1, "Tesla V100-SXM2-32GB", nvlinks=6)]
    assert expected_nvlinks(gpus) == {"g0": 5, "g1": 6}
