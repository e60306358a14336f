"""Which GPUs of which node a gang gets, on captured hardware."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gpuyard.contracts.hardware import Health
from gpuyard.contracts.job import JobSpec, JobState, Reason, TaskSpec
from gpuyard.contracts.placement import Placement
from gpuyard.topology.choice import Choice, choose
from gpuyard_scheduler.core.cluster import alike
from gpuyard_scheduler.core.place import place
from gpuyard_scheduler.core.ring_order import ring_order
from tests.unit.scheduler.world import World, spec

CUBE_MESH = "v100-8gpu-cubemesh-1hca"
PAIRS = "a100-pcie-8gpu-bridged-pairs"
SLOW = "rtx4090-8gpu-all-sys"
SWITCHED = "aws-p4d-a100-8gpu"


def a_world(**nodes: str | int) -> World:
    world = World()
    for node, hardware in nodes.items():
        world.add_node(node, hardware)
    return world


def placed(world: World, wanted: JobSpec) -> Placement:
    found = place(wanted, world.machine.cluster)
    assert isinstance(found, Placement), found
    return found


def gpus(placement: Placement) -> list[int]:
    """Indices in the order of ranks."""
    return [int(gpu.rpartition("-")[2]) for slot in placement.slots for gpu in slot.gpus]


def hold(world: World, node: str, *taken: int) -> None:
    world.machine.cluster.hold("somebody", node, tuple(f"GPU-{node}-{gpu}" for gpu in taken))


@settings(max_examples=60, deadline=None)
@given(
    capture=st.sampled_from([CUBE_MESH, PAIRS, SLOW, SWITCHED]),
    taken=st.sets(st.integers(0, 7), max_size=6),
    data=st.data(),
)
def test_a_gang_lands_on_the_set_that_is_chosen(capture: str, taken: set[int], data: st.DataObject) -> None:
    world = a_world(a=capture)
    hold(world, "a", *taken)
    count = data.draw(st.integers(1, 8 - len(taken)))
    placement = placed(world, spec(count))
    free = set(range(8)) - taken
    best = choose(world.machine.cluster.nodes["a"].shape, free, count)
    assert best
    assert sorted(gpus(placement)) == list(best.gpus)
    assert placement.bottleneck_gb_s == (None if count == 1 else pytest.approx(best.bottleneck_gb_s, abs=0.1))
    assert placement.sum_gb_s == (None if count == 1 else pytest.approx(best.sum_gb_s, abs=0.1))


def test_four_gpus_of_a_cube_mesh_are_a_quad() -> None:
    assert set(gpus(placed(a_world(a=CUBE_MESH), spec(4)))) in ({0, 1, 2, 3}, {4, 5, 6, 7})


def test_of_two_nodes_the_better_linked_is_taken_and_the_other_explained() -> None:
    placement = placed(a_world(a=SLOW, b=CUBE_MESH), spec(2))
    assert placement.nodes == ("b",)
    other = placement.rejected[-1]
    assert other.node == "a"
    assert other.why == "its free GPUs reach 19 GB/s instead of 48.2"
    assert len(placement.rejected) <= 3


def test_the_next_best_sets_on_the_node_are_explained_too() -> None:
    placement = placed(a_world(a=CUBE_MESH), spec(4))
    assert 1 <= len(placement.rejected) <= 3
    nearest = placement.rejected[0]
    assert len(nearest.gpus) == 4
    assert set(nearest.gpus) != {gpu for slot in placement.slots for gpu in slot.gpus}
    assert nearest.why
    assert nearest.bottleneck_gb_s


def test_noise_of_a_measurement_does_not_count_more_than_a_full_node() -> None:
    world = World()
    world.add_node("a", 3, pairs={(0, 1): 48.3, (0, 2): 48.3, (1, 2): 48.3})
    world.add_node("b", 2, pairs={(0, 1): 48.2})
    placement = placed(world, spec(2))
    assert placement.nodes == ("b",)
    assert placement.rejected[-1].why == "GPUs left free: 1 instead of 0; the fullest node is taken"


def test_links_of_unknown_speed_are_not_told_as_zero() -> None:
    world = a_world(a=CUBE_MESH, b=2)
    unknown = tuple(structs.replace(link, gb_s=None) for link in world.inventories["b"].links)
    world.inventories["b"] = structs.replace(world.inventories["b"], links=unknown)
    world.introduce("b")
    placement = placed(world, spec(2))
    assert placement.rejected[-1].why == "its free GPUs reach an unknown speed instead of 48.2 GB/s"
    there = placed(world, spec(2, nodes=("b",)))
    assert (there.bottleneck_gb_s, there.sum_gb_s) == (None, None)


def test_large_sets_are_not_listed_again_and_again() -> None:
    assert placed(a_world(a=100, b=100), spec(65)).rejected == ()


def test_single_gpus_are_taken_where_no_nvlink_pair_is_parted() -> None:
    world = a_world(a=PAIRS)
    hold(world, "a", 0)
    assert gpus(placed(world, spec(1))) == [2]
    world.add_node("b", SLOW)
    world.add_node("c", PAIRS)
    placement = placed(world, spec(1))
    assert (placement.nodes, gpus(placement)) == (("a",), [2])


def test_the_fullest_of_equal_nodes_is_taken() -> None:
    world = a_world(a=SLOW, b=SLOW)
    hold(world, "b", 0, 1, 2)
    placement = placed(world, spec(2))
    assert placement.nodes == ("b",)
    assert placement.rejected[-1].why == "GPUs left free: 6 instead of 3; the fullest node is taken"


def test_equal_nodes_are_one_group() -> None:
    world = a_world(**{f"n{number}": CUBE_MESH for number in range(5)})
    hold(world, "n3", 0)
    sizes = sorted(len(nodes) for nodes in alike(world.machine.cluster.usable()).values())
    assert sizes == [1, 4]


def test_consecutive_ranks_are_neighbours_on_the_best_ring() -> None:
    world = a_world(a=CUBE_MESH)
    placement, shape = placed(world, spec(8)), world.machine.cluster.nodes["a"].shape
    order = gpus(placement)
    assert order != sorted(order)
    around = [shape.gb_s[a][b] for a, b in zip(order, order[1:] + order[:1], strict=True)]
    assert min(around) == placement.bottleneck_gb_s == 48.2


def test_the_order_on_equal_links_is_that_of_the_indices() -> None:
    assert gpus(placed(a_world(a=SWITCHED), spec(8))) == list(range(8))


def test_the_search_for_a_ring_gives_up_where_there_is_none() -> None:
    shape = a_world(a=CUBE_MESH).machine.cluster.nodes["a"].shape
    assert ring_order(shape, Choice((0, 1, 2, 5), 40.0, None)) == (0, 1, 2, 5)


def test_a_rank_with_two_gpus_gets_a_linked_pair() -> None:
    placement = placed(a_world(a=PAIRS), spec(8, ranks=4))
    pairs = {tuple(sorted(int(gpu[-1]) for gpu in slot.gpus)) for slot in placement.slots}
    assert pairs == {(0, 2), (1, 3), (4, 5), (6, 7)}


def test_busy_gpus_come_last_among_equals() -> None:
    world = a_world(a=SWITCHED)
    world.machine.cluster.see_load("a", {"GPU-a-0": 3, "GPU-a-1": 1})
    assert sorted(gpus(placed(world, spec(6)))) == [2, 3, 4, 5, 6, 7]
    world.add_node("b", SWITCHED)
    world.machine.cluster.see_load("b", {})
    placement = placed(world, spec(7))
    assert (placement.nodes, placement.rejected[-1].why) == (("b",), "its GPUs are busier")


def test_load_measured_while_somebody_has_the_gpu_does_not_count() -> None:
    world = a_world(a=SWITCHED)
    hold(world, "a", 0)
    world.machine.cluster.see_load("a", {"GPU-a-0": 3})
    assert world.machine.cluster.nodes["a"].state.load == ()


def test_a_description_that_changes_nothing_gives_nobody_another_turn() -> None:
    world = a_world(a=2)
    cluster = world.machine.cluster
    before, shape = cluster.version, cluster.nodes["a"].shape
    world.introduce("a")
    assert cluster.version == before + 1, "only the executor's presentation counts"
    world.set_health("a", Health.OUT, 0)
    assert cluster.nodes["a"].shape is shape


# -- over several nodes ------------------------------------------------------------------------------------


def in_racks(**racks: str) -> World:
    """Nodes of eight GPUs, named with their rack."""
    world = World()
    for node, rack in racks.items():
        world.add_node(node, SWITCHED, rack=rack)
    return world


def test_nodes_of_one_rack_are_preferred() -> None:
    assert placed(in_racks(a="r1", b="r2", c="r3", d="r2"), spec(16)).nodes == ("b", "d")


def test_few_nodes_count_more_than_one_rack() -> None:
    world = in_racks(a="r1", b="r2", c="r3", d="r3", e="r3")
    for node in "cde":
        hold(world, node, 0, 1)
    assert placed(world, spec(16)).nodes == ("a", "b")


def test_racks_are_crossed_where_one_is_too_small() -> None:
    assert placed(in_racks(a="r1", b="r2", c="r2"), spec(24)).nodes == ("b", "c", "a")


def test_the_last_node_is_the_one_that_suits_the_rest_best() -> None:
    world = a_world(a=SWITCHED, b=SWITCHED, c=SWITCHED)
    hold(world, "c", 0, 1, 2, 3)
    placement = placed(world, spec(12))
    assert [(node, len(placement.on(node))) for node in placement.nodes] == [("a", 8), ("c", 4)]
    assert placement.bottleneck_gb_s is None
    assert placement.rejected == ()


# -- health ------------------------------------------------------------------------------------------------


def test_a_foreign_gpu_is_skipped_and_used_again_once_it_is_free() -> None:
    world = a_world(a=SWITCHED)
    world.set_health("a", Health.FOREIGN, 0, reason="python of ann (process 7)")
    assert gpus(placed(world, spec(1))) == [1]
    job = world.submit(spec(8)).job  # type: ignore[union-attr]
    reason = world.jobs[job].reason
    assert reason
    assert reason.code == "waiting_for_health"
    assert reason.message == (
        "needs 8 GPUs at once; 8 are there, 1 of them used by processes nobody scheduled: "
        "a GPU 0 (python of ann (process 7))"
    )
    small = world.submit(spec(7)).job  # type: ignore[union-attr]
    assert world.jobs[small].state is JobState.STARTING, "a job that waits for health holds up nobody"
    world.obey()
    world.exit(small)
    world.set_health("a", Health.OK, 0)
    assert world.jobs[job].state is JobState.STARTING


def test_jobs_on_a_gpu_that_falls_ill_run_on() -> None:
    world = a_world(a=2)
    job = world.submit(spec(2)).job  # type: ignore[union-attr]
    world.obey()
    world.set_health("a", Health.OUT, 0, 1)
    assert world.jobs[job].state is JobState.RUNNING
    waiting = world.submit(spec(2)).job  # type: ignore[union-attr]
    reason = world.jobs[waiting].reason
    assert reason
    assert reason.message.startswith("needs 2 GPUs at once; 2 are there, 2 of them out of service: a GPU 0 (")
    world.exit(job)
    found = place(spec(1), world.machine.cluster)
    assert isinstance(found, Reason)
    assert "2 are free, 2 of them out of service" in found.message


def test_ill_gpus_and_held_ones_together_are_told_while_others_run() -> None:
    world = a_world(a=4)
    world.submit(spec(1))
    world.set_health("a", Health.UNKNOWN, 3)
    found = place(spec(3), world.machine.cluster)
    assert isinstance(found, Reason)
    assert found.code == "waiting_for_health"
    assert "3 are free, 1 of them of unknown health" in found.message
    found = place(spec(4), world.machine.cluster)
    assert isinstance(found, Reason)
    assert found.code == "waiting_for_gpus"


# -- named nodes -------------------------------------------------------------------------------------------


def test_only_named_nodes_are_used() -> None:
    world = a_world(a=SWITCHED, b=SLOW, c=SLOW)
    assert placed(world, spec(2, nodes=("c", "b"))).nodes == ("b",)
    assert set(placed(world, spec(12, nodes=("b", "c"))).nodes) == {"b", "c"}


def test_a_name_that_nobody_knows_is_refused_with_the_nearest() -> None:
    reply = a_world(node1=2, other=2).submit(spec(1, nodes=("node2",)))
    assert (reply.code, reply.message) == ("refused", "no node is called node2")  # type: ignore[union-attr]
    assert "`node1`" in reply.hint  # type: ignore[union-attr]


def test_what_never_fits_on_the_named_nodes_is_refused() -> None:
    world = a_world(small=2, middle=4, large=8)
    reply = world.submit(spec(8, nodes=("small", "middle")))
    assert "small, middle together can give it 6" in reply.message  # type: ignore[union-attr]
    reply = world.submit(spec(8, ranks=1, nodes=("small", "middle")))
    assert "the largest of small, middle has 4" in reply.message  # type: ignore[union-attr]
    reply = world.submit(spec(0, ranks=17, nodes=("small",)))
    assert "small together can take 16" in reply.message  # type: ignore[union-attr]


def test_the_reason_names_the_nodes_a_job_waits_for() -> None:
    world = a_world(a=2, b=8)
    hold(world, "a", 0)
    found = place(spec(2, nodes=("a",)), world.machine.cluster)
    assert isinstance(found, Reason)
    assert found.message == "needs 2 GPUs at once; 1 are free on a"
    world.machine.cluster.nodes["a"].alive = False
    found = place(spec(2, nodes=("a",)), world.machine.cluster)
    assert isinstance(found, Reason)
    assert found.message == "a: no answer from where it may run"
    found = place(JobSpec((TaskSpec(("x",), ranks=99),), nodes=("b",)), world.machine.cluster)
    assert isinstance(found, Reason)
    assert found.message == "b: full of ranks without GPUs"
