import pytest
from msgspec import structs

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
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import INVENTORY_OF_NODE, NODE, FakeYard, a_job, a_spec

SICK = Inventory(
    "sick",
    1.0,
    gpus=(
        Gpu("GPU-x", 0, health=Health.OUT, health_reason="XID 79: fell off\x1b[2J the bus"),
        Gpu("GPU-y", 1, health=Health.FOREIGN, health_reason="process 7 of bob"),
    ),
    advice="Restart the monitor: the driver was changed.",
)


async def busy(yard: FakeYard) -> None:
    await yard.add_node(speaks=True)
    await yard.add_node(Inventory("cpu-1", 1.0), speaks=True)
    await yard.add_node(SICK, speaks=True)
    await yard.start(await yard.record(a_job(a_spec(gpus=2))))


async def silent(yard: FakeYard) -> None:
    await yard.add_node()


def test_nodes_for_people(shell: Shell) -> None:
    result = shell("nodes", prepare=busy)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "cpu-1: no GPUs, no executor"
    assert lines[1] == "dgx1-1: 4 GPUs (2 free), no executor, simulated"
    assert lines[2].split() == ["GPU", "MODEL", "HEALTH", "BUSY", "MEMORY", "HOLDER", "LINKS"]
    (job,) = shell.yard.jobs
    assert lines[3].split("  ")[-4:] == [job, "NV2 3", "NV1 1", "SYS 2"]
    assert "*" not in result.out


def test_what_is_wrong_is_said_with_its_reason(shell: Shell) -> None:
    lines = shell("nodes", "sick", prepare=busy).out.splitlines()
    assert lines[0] == "sick: 2 GPUs (0 free), no executor"
    assert lines[1] == "  advice: Restart the monitor: the driver was changed."
    assert "out of service" in lines[3]
    assert lines[-2:] == [
        "  GPU 0 is out of service: XID 79: fell off\\x1b[2J the bus",
        "  GPU 1 is foreign: process 7 of bob",
    ]


def test_processes_nobody_scheduled_are_named(shell: Shell) -> None:
    async def used(yard: FakeYard) -> None:
        await yard.add_node()
        strangers = (
            GpuProcess(4711, 3 << 30, "bob", "python", None),
            GpuProcess(4712),
            GpuProcess(4713, job="train-x"),
        )
        yard.samples[NODE] = NodeSample(NODE, 1.0, 0, gpus=(GpuSample("GPU-b", processes=strangers),))

    result = shell("nodes", prepare=used)
    assert result.out.splitlines()[-2:] == [
        "  GPU 1: process 4711 python of bob (3.0 GiB), which nobody scheduled",
        "  GPU 1: process 4712, which nobody scheduled",
    ]
    gpu = shell("nodes", "--json", prepare=used).json[0]["gpus"][1]
    assert [process["pid"] for process in gpu["processes"]] == [4711, 4712, 4713]


def test_measured_links_are_marked(shell: Shell) -> None:
    async def probed(yard: FakeYard) -> None:
        links = (
            Link(0, 1, nvlinks=1, gb_s=22.5, basis=Basis.MEASURED),
            Link(0, 2, nvlinks=1, gb_s=24.0, basis=Basis.MODEL),
            Link(0, 3, level=Level.SYSTEM, gb_s=8.0, basis=Basis.TYPICAL),
        )
        await yard.add_node(structs.replace(INVENTORY_OF_NODE, links=links), speaks=True)

    lines = shell("nodes", prepare=probed).out.splitlines()
    assert lines[2].endswith("NV1 2  NV1* 1  SYS 3")
    assert lines[-1] == "  * bandwidth measured by a probe"


def test_a_silent_node_has_nothing_free(shell: Shell) -> None:
    result = shell("nodes", prepare=silent)
    assert result.out.splitlines()[0] == "dgx1-1: 4 GPUs (0 free), no executor, simulated, silent"


def test_nodes_as_json(shell: Shell) -> None:
    found = {node["node"]: node for node in shell("nodes", "--json", prepare=busy).json}
    gpu = found["dgx1-1"]["gpus"][0]
    assert {
        "uuid",
        "model",
        "links",
        "utilisation",
        "health",
        "holder",
        "job_name",
        "owner",
        "processes",
        "clock_reasons",
    } <= gpu.keys()
    assert gpu["utilisation"] is None
    assert gpu["holder"] in shell.yard.jobs
    assert {"uuid": "GPU-b", "index": 1, "label": "NV1", "gb_s": 24.0, "p2p": None}.items() <= gpu["links"][
        0
    ].items()
    assert found["cpu-1"]["gpus"] == []
    assert found["sick"]["advice"]
    assert [gpu["health"] for gpu in found["sick"]["gpus"]] == ["out_of_service", "foreign"]


def test_one_node_alone(shell: Shell) -> None:
    assert [node["node"] for node in shell("nodes", "sick", "--json", prepare=busy).json] == ["sick"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("dgx-1", "Did you mean `dgx1-1`?"),
        ("DGX1-1", "Did you mean `dgx1-1`?"),
        ("si", "Did you mean `sick`?"),
        ("quite-another", "`gpuyard nodes` lists all nodes."),
    ],
)
def test_a_mistaken_node_names_the_nearest(shell: Shell, name: str, hint: str) -> None:
    result = shell("nodes", name, prepare=busy)
    assert (result.code, result.out) == (3, "")
    assert f"there is no node `{name}`" in result.err
    assert hint in result.err


def test_no_nodes(shell: Shell) -> None:
    result = shell("nodes")
    assert (result.code, result.out) == (0, "")
    assert "No nodes" in result.err
    assert shell("nodes", "--json").json == []
