"""The container of a rank, as it is asked of the engine."""

from dataclasses import replace
from typing import Any

import pytest

from gpuyard.contracts.container_engine import GpuAccess
from gpuyard_executor.core.container import INSIDE, WORKDIR, ContainerPlace, ContainerRules, container_body
from gpuyard_executor.core.rank import Box, RankKey, RankPlan

PLAN = RankPlan(RankKey("job", 2, 1), ("python", "train.py"), "/home/n1/work/job.2", grace_s=7.6)
PLACE = ContainerPlace("sha256:abc", "/home/n1/ranks/job.2.1/pipes", memory_bytes=100 << 30)
RULES = ContainerRules("/home/n1", "59000:59000")
GPUS = ("GPU-a", "GPU-b")


def host(
    plan: RankPlan = PLAN, place: ContainerPlace = PLACE, rules: ContainerRules = RULES
) -> dict[str, Any]:
    config: dict[str, Any] = container_body(plan, place, rules)["HostConfig"]
    return config


def variables(plan: RankPlan, place: ContainerPlace) -> dict[str, str]:
    return dict(each.split("=", 1) for each in container_body(plan, place, RULES)["Env"])


def test_it_is_hardened() -> None:
    config = host()
    assert config["CapDrop"] == ["ALL"]
    assert config["SecurityOpt"] == ["no-new-privileges:true"]
    assert (config["Privileged"], config["Init"], config["IpcMode"]) == (False, True, "private")
    assert config["PidsLimit"] == 4096
    assert not {"Binds", "Devices", "CapAdd", "PidMode", "UsernsMode", "PortBindings"} & config.keys()


def test_nobody_but_the_operator_chooses_the_user() -> None:
    assert container_body(PLAN, PLACE, RULES)["User"] == "59000:59000"


def test_only_the_working_directory_and_its_own_pipes_are_mounted() -> None:
    mounts = [(mount["Source"], mount["Target"], mount["ReadOnly"]) for mount in host()["Mounts"]]
    assert mounts == [(PLAN.cwd, WORKDIR, False), (PLACE.pipes, INSIDE, True)]


def test_the_command_is_handed_on_untouched() -> None:
    body = container_body(replace(PLAN, command=("sh", "-c", "a 'b' $c")), PLACE, RULES)
    assert body["Entrypoint"] == ["/bin/sh", f"{INSIDE}/start"]
    assert body["Cmd"] == ["sh", "-c", "a 'b' $c"]


def test_it_says_whose_it_is() -> None:
    labels = container_body(PLAN, PLACE, RULES)["Labels"]
    assert labels == {"gpuyard.home": "/home/n1", "gpuyard.gang": "job.2", "gpuyard.rank": "job.2.1"}


def test_limits_are_those_of_the_task() -> None:
    config = host(replace(PLAN, box=Box(memory_bytes=1 << 30, cpus=1.5, shm_bytes=1 << 20)))
    assert (config["Memory"], config["MemorySwap"]) == (1 << 30, 1 << 30)
    assert (config["NanoCpus"], config["ShmSize"]) == (1_500_000_000, 1 << 20)


def test_without_limits_it_still_leaves_the_machine_some_memory() -> None:
    config = host()
    assert config["Memory"] == config["MemorySwap"] == int(0.9 * (100 << 30))
    assert "NanoCpus" not in config
    assert "Memory" not in host(place=replace(PLACE, memory_bytes=None))


def test_a_rank_alone_has_only_loopback() -> None:
    config = host()
    assert (config["NetworkMode"], config["ExtraHosts"]) == ("none", ["rank-1:127.0.0.1"])


def test_ranks_of_a_gang_know_each_other_by_name() -> None:
    body = container_body(PLAN, replace(PLACE, network="net"), RULES)
    assert body["HostConfig"]["NetworkMode"] == "net"
    assert body["NetworkingConfig"] == {"EndpointsConfig": {"net": {"Aliases": ["rank-1"]}}}
    assert "ExtraHosts" not in body["HostConfig"]


@pytest.mark.parametrize("access", [None, *GpuAccess])
def test_without_gpus_none_is_seen(access: GpuAccess | None) -> None:
    place = replace(PLACE, access=access)
    assert variables(PLAN, place)["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert not {"Runtime", "DeviceRequests"} & host(place=place).keys()


def test_gpus_by_cdi() -> None:
    plan, place = replace(PLAN, gpus=GPUS), replace(PLACE, access=GpuAccess.CDI)
    assert host(plan, place)["DeviceRequests"] == [
        {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-a", "nvidia.com/gpu=GPU-b"]}
    ]
    assert variables(plan, place)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_gpus_by_the_nvidia_runtime() -> None:
    plan, place = replace(PLAN, gpus=GPUS), replace(PLACE, access=GpuAccess.RUNTIME)
    assert host(plan, place)["Runtime"] == "nvidia"
    assert variables(plan, place)["NVIDIA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"


def test_gpus_by_device_request() -> None:
    plan, place = replace(PLAN, gpus=GPUS), replace(PLACE, access=GpuAccess.REQUEST)
    assert host(plan, place)["DeviceRequests"] == [
        {"DeviceIDs": ["GPU-a", "GPU-b"], "Capabilities": [["gpu"]]}
    ]
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(plan, place)
