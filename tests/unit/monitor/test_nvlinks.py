from hypothesis import given
from hypothesis import strategies as st

from gpuyard_monitor.core.nvlinks import Ports, bonded, switched

BUS = st.sampled_from(["a", "b", "c"])
PORTS = st.builds(Ports, BUS, st.lists(BUS, max_size=8).map(tuple), st.integers(0, 18))


def test_directly_wired_gpus_name_each_other() -> None:
    a, b = Ports("a", ("b", "b", "c")), Ports("b", ("a", "a"))
    assert bonded(a, b) == 2
    assert switched(a, b) == 0


def test_a_link_up_on_one_side_only_does_not_count() -> None:
    assert bonded(Ports("a", ("b", "b")), Ports("b", ("a",))) == 1
    assert bonded(Ports("a", ("b", "b")), Ports("b")) == 0


def test_behind_a_switch_the_weaker_gpu_decides() -> None:
    assert switched(Ports("a", switched=18), Ports("b", switched=12)) == 12


@given(PORTS, PORTS)
def test_both_ways_are_the_same(a: Ports, b: Ports) -> None:
    assert bonded(a, b) == bonded(b, a)
    assert switched(a, b) == switched(b, a)
