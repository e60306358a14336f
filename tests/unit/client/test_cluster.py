from msgspec import structs

from gpuyard.client.cluster import SILENT_AFTER_S, Cluster
from gpuyard.client.node_view import GpuView, LinkView
from gpuyard.contracts.fact import ExecutorInfo
from gpuyard.contracts.hardware import (
    Basis,
    Gpu,
    GpuProcess,
    GpuSample,
    Health,
    Inventory,
    Level,
    Link,
    NodeSample,
)
from gpuyard.contracts.job import Job, JobState
from gpuyard.contracts.placement import Placement, Slot
from tests.unit.client.fake_yard import INVENTORY_OF_NODE, NODE, PLACEMENT, a_job, a_spec

ONE = Inventory("n1", 1.0, gpus=(Gpu("GPU-x", 0, model="L4", power_limit_w=72.0),))
SAMPLE = NodeSample(
    "n1",
    5.0,
    0,
    cpu=0.5,
    gpus=(
        GpuSample(
            "GPU-x",
            utilisation=0.0,
            processes=(GpuProcess(7, name="python"),),
            clock_reasons=("power_cap",),
            nvlink_tx_bytes_s=5.0,
        ),
    ),
)


def cluster_of(*inventories: Inventory) -> Cluster:
    cluster = Cluster()
    for inventory in inventories:
        cluster.take_inventory(inventory)
    return cluster


def the_gpu(cluster: Cluster, now_s: float = 0.0) -> GpuView:
    ((gpu,),) = (node.gpus for node in cluster.views(now_s))
    return gpu


def held(cluster: Cluster) -> list[str | None]:
    return [gpu.holder for node in cluster.views(0.0) for gpu in node.gpus]


def placed(request_id: str = "r1", placement: Placement = PLACEMENT, **fields: object) -> Job:
    job = a_job(a_spec(owner="alice"), request_id=request_id)
    return structs.replace(job, state=JobState.RUNNING, placement=placement, **fields)


def test_nodes_are_sorted_and_know_nothing_before_they_speak() -> None:
    views = cluster_of(Inventory("b", 1.0), Inventory("a", 1.0), ONE).views(0.0)
    assert [(node.node, node.heard, node.cpu) for node in views] == [
        ("a", False, None),
        ("b", False, None),
        ("n1", False, None),
    ]
    assert views[2].gpus[0].utilisation is None
    assert views[2].gpus[0].power_limit_w == 72.0


def test_what_was_measured_is_seen_until_it_is_too_old() -> None:
    cluster = cluster_of(ONE)
    assert cluster.unsampled == {"n1"}
    cluster.take_sample(SAMPLE, 100.0)
    assert cluster.unsampled == set()
    gpu = the_gpu(cluster, 100.0 + SILENT_AFTER_S)
    assert (gpu.utilisation, gpu.processes, gpu.clock_reasons) == (
        0.0,
        (GpuProcess(7, name="python"),),
        ("power_cap",),
    )
    assert gpu.nvlink_tx_bytes_s == 5.0
    (late,) = cluster.views(100.1 + SILENT_AFTER_S)
    assert (late.heard, late.cpu, late.sampled_at_s, late.gpus[0].utilisation) == (False, None, None, None)


def test_a_beat_is_a_sign_of_life_without_measurements() -> None:
    cluster = cluster_of(ONE)
    cluster.take_beat("n1", 50.0)
    (node,) = cluster.views(51.0)
    assert (node.heard, node.cpu) == (True, None)
    assert not cluster.views(60.0)[0].heard


def test_who_is_unknown_is_not_shown_before_its_inventory() -> None:
    cluster = Cluster()
    cluster.take_sample(SAMPLE, 1.0)
    cluster.take_executor(ExecutorInfo("n1", 1.0, "process", "127.0.0.1"))
    assert cluster.views(1.0) == []
    cluster.take_inventory(ONE)
    (node,) = cluster.views(1.0)
    assert (node.heard, node.runtime, node.address) == (True, "process", "127.0.0.1")


def test_a_job_holds_its_gpus_until_it_has_ended() -> None:
    cluster = cluster_of(INVENTORY_OF_NODE)
    job = placed()
    cluster.take_job(job)
    assert held(cluster) == [job.id, None, None, job.id]
    (node,) = cluster.views(0.0)
    assert (node.gpus[0].job_name, node.gpus[0].owner, node.gpus[1].owner) == ("train", "alice", None)
    cluster.take_job(structs.replace(job, state=JobState.STOPPING))
    assert held(cluster) == [job.id, None, None, job.id]
    cluster.take_job(structs.replace(job, state=JobState.FAILED))
    assert held(cluster) == [None] * 4


def test_a_job_that_moves_holds_only_its_new_place() -> None:
    cluster = cluster_of(INVENTORY_OF_NODE)
    cluster.take_job(placed())
    cluster.take_job(structs.replace(a_job(), placement=None))
    assert held(cluster) == [None] * 4
    cluster.take_job(placed(placement=Placement((Slot(0, "main", NODE, 0, 0, ("GPU-b",)),))))
    assert held(cluster) == [None, placed().id, None, None]


def test_a_gpu_that_was_handed_on_stays_with_the_new_holder() -> None:
    cluster = cluster_of(INVENTORY_OF_NODE)
    old, new = placed("r1"), placed("r2")
    cluster.take_job(old)
    cluster.take_job(new)
    cluster.take_job(structs.replace(old, state=JobState.CANCELLED))
    assert held(cluster) == [new.id, None, None, new.id]


def test_what_must_be_read_anew_is_forgotten() -> None:
    cluster = cluster_of(INVENTORY_OF_NODE)
    cluster.take_job(placed())
    cluster.forget_jobs()
    assert held(cluster) == [None] * 4
    cluster.forget_nodes()
    assert cluster.views(0.0) == []


def test_each_gpu_sees_its_own_links() -> None:
    gpus = tuple(Gpu(f"GPU-{letter}", index) for index, letter in enumerate("abc"))
    links = (
        Link(0, 1, nvlinks=12, gb_s=240.0, p2p=True, switched=True, basis=Basis.MEASURED),
        Link(1, 2, level=Level.SYSTEM),
    )
    ((first, second, third),) = (
        node.gpus for node in cluster_of(Inventory("n1", 1.0, gpus=gpus, links=links)).views(0.0)
    )
    near = LinkView("GPU-b", 1, "NV12", 240.0, True, None, 12, True, Basis.MEASURED)
    assert first.links == (near,)
    assert [(link.index, link.label, link.gb_s) for link in second.links] == [
        (0, "NV12", 240.0),
        (2, "SYS", None),
    ]
    assert [link.level for link in third.links] == [Level.SYSTEM]


def test_free_is_what_a_job_could_be_given() -> None:
    gpus = tuple(Gpu(f"GPU-{letter}", index) for index, letter in enumerate("abc"))
    sick = (*gpus, Gpu("GPU-e", 3, health=Health.OUT), Gpu("GPU-f", 4, health=Health.FOREIGN))
    cluster = cluster_of(Inventory(NODE, 1.0, gpus=sick, advice="Restart the monitor."))
    cluster.take_job(placed(placement=Placement((Slot(0, "main", NODE, 0, 0, ("GPU-a",)),))))
    (silent,) = cluster.views(0.0)
    assert not any(silent.has_free(gpu) for gpu in silent.gpus)
    assert silent.advice == "Restart the monitor."
    cluster.take_beat(NODE, 0.0)
    (node,) = cluster.views(0.0)
    assert [node.has_free(gpu) for gpu in node.gpus] == [False, True, True, False, False]
