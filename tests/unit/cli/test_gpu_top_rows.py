import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gpuyard.cli.gpu_top_rows import Row, Sort, ordered, rows_of, selected
from gpuyard.client.node_view import GpuView, NodeView
from gpuyard.contracts.hardware import GpuProcess, Health, Host
from tests.unit.cli.gpus import a_row, unknown_row

ROWS = st.builds(
    a_row,
    st.sampled_from(["n1", "n2", "n10", "a"]),
    st.integers(0, 9),
    utilisation=st.none() | st.floats(0, 1),
    power_w=st.none() | st.floats(0, 700),
    temperature_c=st.none() | st.floats(20, 90),
    memory_used_bytes=st.none() | st.integers(0, 2**40),
    job=st.none() | st.sampled_from(["train-a", "train-b"]),
    owner=st.none() | st.sampled_from(["alice", "bob"]),
    heard=st.booleans(),
    free=st.booleans(),
)


def places(rows: list[Row]) -> list[tuple[str, int]]:
    return [(row.node, row.index) for row in rows]


def test_a_row_holds_what_is_known_of_a_gpu() -> None:
    gpu = GpuView("GPU-a", 0, "L4", 24, Health.OK, "", (), utilisation=0.25, holder="train-x", owner="alice")
    other = GpuView("GPU-b", 1, "L4", 24, Health.FOREIGN, "pid 7", (), processes=(GpuProcess(7),))
    third = GpuView("GPU-c", 2, "L4", 24, Health.OK, "", ())
    rows = rows_of([NodeView("n1", False, Host(), (gpu, other, third), {}, heard=True)])
    assert [(row.job, row.owner, row.utilisation, row.free) for row in rows] == [
        ("train-x", "alice", 0.25, False),
        (None, None, None, False),
        (None, None, None, True),
    ]
    assert [row.condition for row in rows] == ["ok", "foreign", "ok"]


@pytest.mark.parametrize(
    ("health", "heard", "condition"),
    [
        (Health.OK, True, "ok"),
        (Health.OUT, True, "out"),
        (Health.FOREIGN, True, "foreign"),
        (Health.UNKNOWN, True, "unknown"),
        (Health.OK, False, "silent"),
        (Health.OUT, False, "silent"),
    ],
)
def test_a_silent_nodes_health_is_not_known(health: Health, heard: bool, condition: str) -> None:
    assert a_row(health=health, heard=heard).condition == condition


def test_nodes_are_ordered_by_their_numbers() -> None:
    rows = [a_row("n10", 0), a_row("n9", 1), a_row("n9", 0), a_row("a", 3), a_row("10", 0), a_row("9", 0)]
    by_node = ordered(rows, Sort.NODE)
    assert places(by_node) == [("a", 3), ("n9", 0), ("n9", 1), ("n10", 0), ("9", 0), ("10", 0)]
    assert ordered(rows, Sort.NODE, reverse=True) == by_node[::-1]


@pytest.mark.parametrize(
    ("sort", "field"),
    [
        (Sort.UTILISATION, "utilisation"),
        (Sort.MEMORY, "memory_used_bytes"),
        (Sort.POWER, "power_w"),
        (Sort.TEMPERATURE, "temperature_c"),
    ],
)
def test_the_busiest_come_first_and_the_unknown_last(sort: Sort, field: str) -> None:
    rows = [structs.replace(a_row(index=i), **{field: v}) for i, v in enumerate([10, None, 30, 0, 30])]
    assert [row.index for row in ordered(rows, sort)] == [2, 4, 0, 3, 1]
    assert [row.index for row in ordered(rows, sort, reverse=True)] == [3, 0, 2, 4, 1]


def test_jobs_are_ordered_by_name_and_the_free_come_last() -> None:
    rows = [a_row(index=i, job=job) for i, job in enumerate([None, "b", "a", "b"])]
    assert [row.index for row in ordered(rows, Sort.JOB)] == [2, 1, 3, 0]
    assert [row.index for row in ordered(rows, Sort.JOB, reverse=True)] == [1, 3, 2, 0]


@given(st.lists(ROWS, max_size=8), st.sampled_from(Sort), st.booleans())
def test_ordering_loses_nothing_and_depends_on_values_alone(
    rows: list[Row], sort: Sort, reverse: bool
) -> None:
    once = ordered(rows, sort, reverse=reverse)
    assert sorted(map(repr, once)) == sorted(map(repr, rows))
    assert ordered(once, sort, reverse=reverse) == once


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", 3),
        ("H100", 2),
        ("alice", 1),
        ("ALICE n1", 1),
        ("alice n2", 0),
        ("out", 1),
        ("xid 79", 1),
        ("silent", 1),
        ("train-x", 1),
        ("GPU-n1-0", 0),
    ],
)
def test_rows_are_filtered_by_every_word(text: str, found: int) -> None:
    rows = [
        a_row("n1", 0, job="train-x", owner="alice", free=False),
        a_row("n1", 1, health=Health.OUT, health_reason="XID 79: fell off the bus", free=False),
        unknown_row("n2", 0, health=Health.FOREIGN, health_reason="XID 79"),
    ]
    assert len(selected(rows, text, free_only=False)) == found


@given(
    st.lists(ROWS, max_size=8), st.sampled_from(["", "alice", "train n1", "silent", "h100"]), st.booleans()
)
def test_filtering_keeps_order_and_only_narrows(rows: list[Row], text: str, free_only: bool) -> None:
    kept = selected(rows, text, free_only=free_only)
    places = iter(rows)
    assert all(any(row is other for other in places) for row in kept)
    assert all(row.free for row in kept) or not free_only
    assert selected(kept, text, free_only=free_only) == kept
