from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.hardware import GpuProcess, GpuSample, NodeSample
from gpuyard_scheduler.core.load import SAMPLES_IN_A_ROW, GpuLook, Loads, NodeLook, level_of

GIB = 1024**3


def look(*utilisations: float | None) -> NodeLook:
    return NodeLook("a", tuple(GpuLook(f"G{index}", each) for index, each in enumerate(utilisations)))


def told(loads: Loads, *looks: NodeLook, held: set[str] | None = None) -> list[dict[str, int]]:
    seen = [loads.see(each, held or set()) for each in looks]
    return [dict(each.levels) for each in seen if each]


def test_levels_go_by_the_worse_of_utilisation_and_memory() -> None:
    assert [level_of(GpuLook("g", busy)) for busy in (None, 0.0, 0.049, 0.05, 0.3, 0.7, 1.0)] == [
        0,
        0,
        0,
        1,
        2,
        3,
        3,
    ]
    assert [level_of(GpuLook("g", 0.0, used * GIB)) for used in (0, 3, 4, 16, 40)] == [0, 0, 1, 2, 3]


def test_a_level_counts_after_some_samples_in_a_row() -> None:
    loads = Loads()
    assert told(loads, *[look(0.0, 0.9)] * (SAMPLES_IN_A_ROW - 1)) == []
    assert told(loads, look(0.0, 0.9)) == [{"G1": 3}]
    assert told(loads, *[look(0.0, 0.9)] * 10) == []
    assert told(loads, *[look(0.0, 0.0)] * SAMPLES_IN_A_ROW) == [{}]


def test_noise_changes_nothing() -> None:
    assert told(Loads(), *[look(0.0), look(0.0), look(1.0), look(0.2)] * 20) == []


def test_what_a_job_does_to_its_gpus_is_no_load_and_leaves_none() -> None:
    loads = Loads()
    assert told(loads, *[look(1.0, 1.0)] * 10, held={"G0", "G1"}) == []
    assert told(loads, look(1.0, 1.0), look(0.0, 0.0), look(0.0, 0.0)) == []
    assert told(loads, *[look(1.0, 0.0)] * 5) == [{"G0": 3}]
    assert told(loads, look(1.0, 0.0), held={"G0"}) == [{}]


@given(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]), max_size=60))
def test_a_level_is_never_told_twice_and_changes_slowly(utilisations: list[float]) -> None:
    changes = told(Loads(), *map(look, utilisations))
    assert len(changes) <= len(utilisations) // SAMPLES_IN_A_ROW
    assert all(one != other for one, other in pairwise(changes))


def test_a_look_reads_what_a_monitor_sends() -> None:
    gpu = GpuSample("G", 0.5, GIB, 99.0, 60.0, (GpuProcess(7, GIB, "ann", "python"),), ("power_cap",))
    sample = NodeSample("a", 1.0, 3, cpu=0.5, gpus=(gpu,))
    assert decode(encode(sample), NodeLook) == NodeLook("a", (GpuLook("G", 0.5, GIB),))
