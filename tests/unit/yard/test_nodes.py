import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.contracts.errors import InvalidSpec
from gpuyard.contracts.ids import is_id
from gpuyard.yard.nodes import MOST_OF_A_KIND, Node, describe, parse_simulate, simulated, with_local


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("v100", ("v100", 1)),
        ("v100:3", ("v100", 3)),
        ("/tmp/topo.txt:2", ("/tmp/topo.txt", 2)),
        ("odd:name", ("odd:name", 1)),
        ("a:b:2", ("a:b", 2)),
    ],
)
def test_a_count_is_split_off(text: str, parsed: tuple[str, int]) -> None:
    assert parse_simulate(text) == parsed


@pytest.mark.parametrize("text", ["", ":", ":3", "v100:0", "v100:1001", "v100:99999999999999999999"])
def test_nonsense_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        parse_simulate(text)
    assert refusal.value.hint


def test_nodes_are_numbered_on_across_flags() -> None:
    nodes = simulated([("v100", 2), ("/tmp/My Topo.txt", 1), ("v100", 1)])
    assert [node.id for node in nodes] == ["v100-1", "v100-2", "my-topo-1", "v100-3"]
    assert nodes[2].capture == "/tmp/My Topo.txt"


def test_the_real_machine_is_named_by_its_host() -> None:
    assert with_local((), "Big.Box.example") == (Node("big"),)
    assert with_local((Node("big-1", "x"),), "big-1")[0] == Node("big-1-local")


@settings(deadline=None)  # a loaded machine may stop for a second
@given(
    st.lists(st.tuples(st.text(min_size=1), st.integers(1, 5)), max_size=5),
    st.text(max_size=300),
)
def test_every_id_is_legal_and_unique(wanted: list[tuple[str, int]], hostname: str) -> None:
    ids = [node.id for node in with_local(simulated(wanted), hostname)]
    assert all(is_id(each) for each in ids)
    assert len(set(ids)) == len(ids)


def test_many_nodes_are_described_in_a_line() -> None:
    nodes = with_local(simulated([("v100", MOST_OF_A_KIND), ("k80", 1)]), "box")
    assert describe(nodes) == "box, 1000 simulated (v100-1 to v100-1000), 1 simulated (k80-1)"
