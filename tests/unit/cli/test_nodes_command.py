import pytest

from gpuyard.client import nodes
from gpuyard.contracts.hardware import Gpu, Health, Inventory, NodeSample
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import FakeYard, a_job, a_spec


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody publishes samples here."""
    monkeypatch.setattr(nodes, "_samples", _none)


async def _none(*_: object) -> dict[str, object]:
    return {}


async def busy(yard: FakeYard) -> None:
    await yard.add_node()
    await yard.add_node(Inventory("cpu-1", 1.0))
    await yard.add_node(
        Inventory("sick", 1.0, gpus=(Gpu("GPU-x", 0, health=Health.OUT, health_reason="ECC"),))
    )
    await yard.start(await yard.record(a_job(a_spec(gpus=2))))


async def _one(*_: object) -> dict[str, NodeSample]:
    return {"dgx1-1": NodeSample("dgx1-1", 1.0, 0)}


def test_nodes_for_people(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "_samples", _one)
    result = shell("nodes", prepare=busy)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "cpu-1: no GPUs, no executor, silent"
    assert lines[1] == "dgx1-1: 4 GPUs (2 free), no executor, simulated"
    assert lines[2].split() == ["GPU", "MODEL", "HEALTH", "BUSY", "MEMORY", "HOLDER", "LINKS"]
    (job,) = shell.yard.jobs
    assert lines[3].split("  ")[-4:] == [job, "NV2 3", "NV1 1", "SYS 2"]
    assert "out_of_service (ECC)" in result.out
    assert "sick: 1 GPU (0 free)" in result.out


def test_a_silent_node_has_nothing_free(shell: Shell) -> None:
    async def silent(yard: FakeYard) -> None:
        await yard.add_node()

    result = shell("nodes", prepare=silent)
    assert result.out.splitlines()[0] == "dgx1-1: 4 GPUs (0 free), no executor, simulated, silent"
    assert [node["heard"] for node in shell("nodes", "--json", prepare=silent).json] == [False]


def test_nodes_as_json(shell: Shell) -> None:
    found = {node["node"]: node for node in shell("nodes", "--json", prepare=busy).json}
    gpu = found["dgx1-1"]["gpus"][0]
    assert {"uuid", "model", "links", "utilisation", "health", "holder"} <= gpu.keys()
    assert gpu["utilisation"] is None
    assert gpu["holder"] in shell.yard.jobs
    assert gpu["links"][0] == {"uuid": "GPU-b", "index": 1, "label": "NV1", "gb_s": 24.0, "p2p": None}
    assert found["cpu-1"]["gpus"] == []


def test_no_nodes(shell: Shell) -> None:
    result = shell("nodes")
    assert (result.code, result.out) == (0, "")
    assert "No nodes" in result.err
    assert shell("nodes", "--json").json == []
