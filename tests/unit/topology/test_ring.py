from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyard.topology.ring import bits_of, core, graph_of, mask_of, ring_in
from tests.unit.topology.brute_force import ring_bottleneck

Edges = set[tuple[int, int]]


def clique(gpus: range) -> Edges:
    return set(combinations(gpus, 2))


def edges_of(size: int) -> st.SearchStrategy[Edges]:
    return st.sets(st.sampled_from(list(combinations(range(size), 2))))


@settings(max_examples=200, deadline=None)
@given(edges_of(7), st.integers(3, 7))
def test_a_ring_is_found_if_there_is_one(edges: Edges, length: int) -> None:
    linked = [[float((min(a, b), max(a, b)) in edges) for b in range(7)] for a in range(7)]
    sets = [gpus for gpus in combinations(range(7), length) if ring_bottleneck(linked, gpus)]
    found = ring_in(graph_of(7, edges), 0b1111111, length)
    assert (found is not None) == bool(sets)
    assert found is None or bits_of(found) in sets


@settings(deadline=None)
@given(edges_of(6), st.integers(0, 63))
def test_a_ring_of_two_is_a_link_and_of_one_any_gpu(edges: Edges, within: int) -> None:
    graph = graph_of(6, edges)
    inside = {mask_of(edge) for edge in edges if within >> edge[0] & within >> edge[1] & 1}
    link = ring_in(graph, within, 2)
    assert link in inside if inside else link is None
    assert ring_in(graph, within, 1) == (within & -within or None)


@pytest.mark.parametrize(
    ("edges", "longest"),
    [
        ({(a, b) for a in range(7) for b in range(7, 16)}, 14),
        (clique(range(8)) | clique(range(8, 16)) | {(7, 8)}, 8),
        (clique(range(16)), 16),
        ({(gpu, (gpu + 1) % 16) for gpu in range(16)}, 16),
    ],
    ids=["two uneven halves", "two islands with a bridge", "all to all", "one ring"],
)
def test_graphs_that_defeat_a_plain_search_are_decided_at_once(edges: Edges, longest: int) -> None:
    graph = graph_of(16, edges)
    lengths = [length for length in range(3, 17) if ring_in(graph, 0xFFFF, length) is not None]
    assert max(lengths) == longest


def test_the_core_leaves_out_dead_ends() -> None:
    tail = graph_of(6, {(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)})
    assert bits_of(core(tail, 0b111111, 2)) == (0, 1, 2)
    assert bits_of(core(tail, 0b111111, 1)) == (0, 1, 2, 3, 4)
    assert bits_of(core(tail, 0b011011, 2)) == ()
