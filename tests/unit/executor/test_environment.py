from gpuyard.contracts.job import TaskSpec
from gpuyard_executor.core.environment import inherited, rank_environment
from tests.unit.executor.orders import prepare, slot


def test_a_rank_inherits_nothing_of_ours() -> None:
    own = {
        "PATH": "/bin",
        "GPUYARD_BUS__URL": "nats://token@host",
        "NATS_TOKEN": "x",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=x",
        "OTEL_SERVICE_NAME": "mine",
        "NOTIFY_SOCKET": "/run/systemd/notify",
    }
    assert inherited(own) == {"PATH": "/bin", "OTEL_SERVICE_NAME": "mine"}


def test_what_torchrun_sets() -> None:
    slots = (slot(4, "A", local_rank=0), slot(5, "B", local_rank=1))
    env = rank_environment({}, prepare(slots=slots, world_size=8), slots[1], "10.0.0.1", 29500)
    wanted = {
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "NODE_RANK": "0",
        "GROUP_RANK": "0",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29500",
        "GPUYARD_JOB_ID": "j1",
        "GPUYARD_ATTEMPT": "1",
        "GPUYARD_TASK": "main",
        "GPUYARD_NODE": "n1",
    }
    assert wanted.items() <= env.items()


def test_ours_over_the_tasks_over_the_inherited() -> None:
    task = TaskSpec(("train",), env={"LANG": "C", "RANK": "99", "PYTHONUNBUFFERED": ""})
    env = rank_environment({"LANG": "de", "HOME": "/h"}, prepare(tasks=(task,)), slot(0), "a", 1)
    assert (env["LANG"], env["HOME"], env["RANK"], env["PYTHONUNBUFFERED"]) == ("C", "/h", "0", "")


def devices(*slots_gpus: tuple[str, ...]) -> list[str]:
    slots = tuple(slot(rank, *gpus) for rank, gpus in enumerate(slots_gpus))
    order = prepare(slots=slots)
    return [rank_environment({}, order, each, "a", 1)["CUDA_VISIBLE_DEVICES"] for each in slots]


def test_with_one_gpu_each_the_local_rank_is_the_device_number() -> None:
    assert devices(("B",), ("A",)) == ["B,A", "B,A"]


def test_with_several_gpus_each_a_rank_sees_its_own() -> None:
    assert devices(("A", "B"), ("C", "D")) == ["A,B", "C,D"]


def test_a_rank_without_gpus_sees_none() -> None:
    assert devices((), ("A",)) == ["", "A"]
    order = prepare()
    assert rank_environment({}, order, slot(0), "a", 1)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_own_gpus_are_named() -> None:
    order = prepare(gpus=("A", "B"))
    assert rank_environment({}, order, order.slots[1], "a", 1)["GPUYARD_GPUS"] == "B"
