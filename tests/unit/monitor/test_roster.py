from itertools import combinations

from gpuyard.contracts.hardware import Gpu, Inventory, Level, Link, Nic
from gpuyard_monitor.core.readings import Found
from gpuyard_monitor.core.roster import joined


def found(*uuids: str, nvlinks: int | None = None) -> Found:
    """Links carry the names of their GPUs in their bandwidth: g1 and g3 have 1.3."""
    gpus = tuple(Gpu(uuid, index, nvlinks=nvlinks) for index, uuid in enumerate(uuids))
    links = tuple(
        Link(a, b, gb_s=float(".".join(sorted((uuids[a][1:], uuids[b][1:])))))
        for a, b in combinations(range(len(uuids)), 2)
    )
    level = {"g0": Level.SINGLE_SWITCH, "g1": Level.SYSTEM, "g2": Level.SAME_NODE, "g3": Level.HOST_BRIDGE}
    return Found(gpus, links, (Nic("mlx5_0", tuple(level[uuid] for uuid in uuids)),), count=len(uuids))


def inventory(whole: Found) -> Inventory:
    return Inventory("n1", 0.0, gpus=whole.gpus, links=whole.links, nics=whole.nics)


ALL = found("g0", "g1", "g2", "g3")


def test_nothing_changes_while_all_answer() -> None:
    assert joined(inventory(ALL), ALL) == ALL


def test_a_gpu_that_is_gone_keeps_its_place_its_links_and_its_index() -> None:
    after = joined(inventory(ALL), found("g0", "g2", "g3"))
    assert (after.gpus, after.links, after.nics) == (ALL.gpus, ALL.links, ALL.nics)
    assert after.count == 3


def test_order_and_numbers_stay_when_the_driver_counts_anew() -> None:
    after = joined(inventory(ALL), found("g3", "g1", "g0", "g2"))
    assert (after.gpus, after.links, after.nics) == (ALL.gpus, ALL.links, ALL.nics)


def test_without_a_driver_all_stay() -> None:
    after = joined(inventory(ALL), None)
    assert (after.gpus, after.links, after.nics) == (ALL.gpus, ALL.links, ALL.nics)


def test_new_gpus_come_last_with_a_number_of_their_own() -> None:
    after = joined(inventory(found("g1", "g0")), found("g2", "g1"))
    assert [(gpu.uuid, gpu.index) for gpu in after.gpus] == [("g1", 0), ("g0", 1), ("g2", 2)]
    assert [(link.a, link.b, link.gb_s) for link in after.links] == [(0, 1, 0.1), (0, 2, 1.2), (1, 2, None)]
    assert after.nics[0].levels == (Level.SYSTEM, Level.SINGLE_SWITCH, Level.SAME_NODE)


def test_the_most_nvlinks_ever_up_are_remembered() -> None:
    after = joined(inventory(found("g0", "g1", nvlinks=12)), found("g0", "g1", nvlinks=10))
    assert [gpu.nvlinks for gpu in after.gpus] == [12, 12]
    after = joined(inventory(found("g0", nvlinks=None)), found("g0", nvlinks=4))
    assert [gpu.nvlinks for gpu in after.gpus] == [4]
