from gpuyard.contracts.job import JobSpec, Reason, TaskSpec
from gpuyard.contracts.placement import Placement
from gpuyard_scheduler.core.place import place
from tests.unit.scheduler.world import World, spec


def placed(world: World, wanted: JobSpec) -> Placement:
    found = place(wanted, world.machine.cluster)
    assert isinstance(found, Placement), found
    return found


def test_one_node_with_the_best_links_is_preferred() -> None:
    world = World()
    world.add_node("slow", 4)
    world.add_node("fast", 4, pairs={(2, 3): 48.0})
    found = placed(world, spec(2))
    assert found.nodes == ("fast",)
    assert [slot.gpus for slot in found.slots] == [("GPU-fast-2",), ("GPU-fast-3",)]
    assert found.bottleneck_gb_s == 48.0
    assert [(link.a, link.b, link.gb_s) for link in found.links] == [("GPU-fast-2", "GPU-fast-3", 48.0)]


def test_among_equals_the_fullest_node_is_taken() -> None:
    world = World()
    world.add_node("large", 8)
    world.add_node("small", 2)
    assert placed(world, spec(2)).nodes == ("small",)


def test_uneven_split_over_few_nodes() -> None:
    world = World()
    for node in ("a", "b", "c"):
        world.add_node(node, 8)
    found = placed(world, spec(12))
    assert [len(found.on(node)) for node in found.nodes] == [8, 4]
    assert [slot.rank for slot in found.slots] == list(range(12))
    assert [slot.node_rank for slot in found.slots] == [0] * 8 + [1] * 4
    assert [slot.local_rank for slot in found.slots] == [*range(8), *range(4)]


def test_gpus_of_one_rank_stay_on_one_node() -> None:
    world = World()
    world.add_node("a", 3)
    world.add_node("b", 3)
    found = placed(world, spec(4, ranks=2))
    assert [len(found.on(node)) for node in found.nodes] == [1, 1]
    assert isinstance(place(spec(6, ranks=3), world.machine.cluster), Reason)


def test_roles_of_different_shape_start_as_one_gang() -> None:
    world = World()
    world.add_node("cpu", 0)
    world.add_node("gpu", 4)
    driver, worker = TaskSpec(("driver",), name="driver"), TaskSpec(("worker",), name="worker", gpus=4)
    found = placed(world, JobSpec((driver, worker)))
    assert [slot.task for slot in found.slots] == ["driver"] + ["worker"] * 4
    assert found.nodes == ("gpu",)


def test_work_without_gpus_stays_away_from_them() -> None:
    world = World()
    world.add_node("a-gpu", 4)
    world.add_node("cpu", 0)
    assert placed(world, spec(0)).nodes == ("cpu",)


def test_ranks_without_gpus_are_limited_by_cpus() -> None:
    world = World()
    world.add_node("cpu", 0)
    assert len(placed(world, spec(0, ranks=16)).slots) == 16
    found = place(spec(0, ranks=17), world.machine.cluster)
    assert isinstance(found, Reason)
    assert found.code == "waiting_for_room"


def test_placing_changes_nothing() -> None:
    world = World()
    world.add_node("a", 4)
    assert placed(world, spec(4)) == placed(world, spec(4))
