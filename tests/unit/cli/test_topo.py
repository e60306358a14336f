import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec import structs

from gpuyard.client.aio import AsyncClient
from gpuyard.client.node_view import NodeView
from gpuyard.contracts.hardware import Gpu, Health, Inventory
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import INVENTORY_OF_NODE, FakeYard, a_job, a_spec

CUT = str(Path(__file__).parents[2] / "data" / "captures" / "damaged" / "a800-8gpu-nv8-row-cut.txt")


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node speaks, and nobody waits for it."""
    read = AsyncClient.nodes

    async def nodes(self: AsyncClient) -> list[NodeView]:
        return [structs.replace(view, heard=True) for view in await read(self, sample_wait_s=0)]

    monkeypatch.setattr(AsyncClient, "nodes", nodes)


async def one(yard: FakeYard) -> None:
    await yard.add_node()
    await yard.start(await yard.record(a_job(a_spec(gpus=2))))


async def three(yard: FakeYard) -> None:
    await one(yard)
    await yard.add_node(Inventory("cpu-1", 1.0))
    sick = Gpu("GPU-x", 0, model="T4", health=Health.OUT, health_reason="ECC")
    await yard.add_node(Inventory("sick", 1.0, gpus=(sick,), labels={"rack": "r1"}))


def test_a_capture_needs_no_yard(shell: Shell) -> None:
    result = shell("topo", "--capture", "azure-ndv2-v100-8gpu")
    assert (result.code, result.err, shell.dirs) == (0, "", [])
    assert "NVLink island: NV2 48.2 GB/s, NV1 24.1 GB/s" in result.out
    assert "GPU7" in result.out
    assert "\x1b" not in result.out


def test_a_capture_as_json(shell: Shell) -> None:
    view = shell("topo", "--capture", "titanv-8gpu-pix-phb-sys", "--json").json
    assert view["gpus"] == 8
    assert [len(row) for row in view["links"]] == [8] * 8
    itself, near = view["links"][0][:2]
    assert {key: itself[key] for key in ("level", "nvlinks", "gb_s", "p2p")} == {
        "level": "X",
        "nvlinks": 0,
        "gb_s": None,
        "p2p": None,
    }
    assert {key: near[key] for key in ("level", "nvlinks", "gb_s", "p2p")} == {
        "level": "PIX",
        "nvlinks": 0,
        "gb_s": 11.5,
        "p2p": True,
    }
    assert view["links"][1][0] == near
    assert view["numa"] == [None] * 8
    assert view["cpus"] == ["0-13,28-41"] * 4 + ["14-27,42-55"] * 4
    assert view["nics"] == []
    assert view["tree"]["tier"] == "node"
    assert [child["gpus"] for child in view["tree"]["children"]] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert view["states"] is None


def test_nvlink_hides_the_level(shell: Shell) -> None:
    view = shell("topo", "--capture", "nersc-corigpu-v100-8gpu-9nic", "--json").json
    cell = view["links"][0][3]
    assert (cell["level"], cell["nvlinks"], cell["gb_s"], cell["p2p"]) == (None, 2, 48.2, True)
    assert view["nics"][1]["name"] == "mlx5_0"
    assert view["nics"][1]["levels"][:3] == ["PIX", "PIX", "NODE"]


def test_the_picture_goes_to_a_file(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "node.svg"
    result = shell("topo", "--capture", "k80-4gpu-node", "--svg", str(target))
    assert result.code == 0
    assert str(target) in result.err
    assert ElementTree.fromstring(target.read_bytes()).tag.endswith("svg")


@pytest.mark.usefixtures("heard")
def test_the_only_node_is_meant(shell: Shell, tmp_path: Path) -> None:
    target = tmp_path / "node.svg"
    result = shell("topo", "--svg", str(target), prepare=one)
    (job,) = shell.yard.jobs
    assert f"GPU 0   taken: {job}" in result.out
    assert "GPU 1   free" in result.out
    assert "taken" in target.read_text(encoding="utf-8")
    view = shell("topo", "--json", prepare=one).json
    assert [state["standing"] for state in view["states"]] == ["taken", "free", "free", "taken"]
    assert view["states"][0]["words"] == job


@pytest.mark.usefixtures("heard")
def test_several_nodes_are_a_cluster(shell: Shell) -> None:
    result = shell("topo", prepare=three)
    assert result.out.splitlines() == [
        "cluster",
        "├─ rack r1",
        "│  └─ sick: 1 x T4, 0 free",
        "├─ cpu-1: no GPUs, 0 free",
        "└─ dgx1-1: 4 x Tesla V100, 2 free, NVLink island of 4",
    ]
    view = shell("topo", "--json", prepare=three).json
    assert view["gpus"] == 5
    assert [node["node"] for node in view["nodes"]] == ["cpu-1", "dgx1-1", "sick"]
    assert [child["tier"] for child in view["tree"]["children"]] == ["rack", "node", "node"]
    assert shell("topo", "dgx1-1", "--json", prepare=three).json["gpus"] == 4


def test_of_a_silent_node_nothing_is_free(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    read = AsyncClient.nodes
    monkeypatch.setattr(AsyncClient, "nodes", lambda self: read(self, sample_wait_s=0))
    result = shell("topo", prepare=one)
    assert "GPU 1   out of service: its node is silent" in result.out
    assert "free" not in result.out


@pytest.mark.usefixtures("heard")
def test_names_from_elsewhere_do_not_reach_the_terminal_raw(shell: Shell) -> None:
    async def hostile(yard: FakeYard) -> None:
        await yard.add_node(structs.replace(INVENTORY_OF_NODE, source="\x1b]0;title\x07 \x1b[2J"))

    assert "\x1b" not in shell("topo", prepare=hostile).out


def test_no_nodes(shell: Shell) -> None:
    result = shell("topo")
    assert (result.code, result.out) == (0, "")
    assert "No nodes" in result.err
    assert shell("topo", "--json").json == {
        "gpus": 0,
        "nodes": [],
        "tree": shell("topo", "--json").json["tree"],
    }


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["dgx1-2"], 3, "no node `dgx1-2`"),
        (["dgx1-1", "--capture", "k80-4gpu-node"], 2, "exclude each other"),
        (["--capture", "k80"], 3, "'k80'"),
        (["--capture", "/"], 2, "no ordinary file"),
        (["--capture", "k80-4gpu-node", "--svg", "/nowhere/x.svg"], 2, "can't write the picture"),
        (["--svg", "x.svg"], 2, "a picture shows one node"),
    ],
)
def test_mistakes(shell: Shell, arguments: list[str], code: int, message: str) -> None:
    result = shell("topo", *arguments, prepare=three)
    assert (result.code, result.out) == (code, "")
    assert message in result.err


def test_a_damaged_file_is_refused_with_its_line(shell: Shell, tmp_path: Path) -> None:
    result = shell("topo", "--capture", CUT, "--json")
    failure = json.loads(result.out)
    assert result.code == 2
    assert (failure["code"], failure["line"]) == ("invalid", 10)
    assert "GPU7 is cut" in failure["message"]
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 9)
    for name in ("empty", "binary"):
        result = shell("topo", "--capture", str(tmp_path / name), "--json")
        assert result.code == 2
        assert json.loads(result.out)["line"] >= 1
