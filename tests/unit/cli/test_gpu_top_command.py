import pytest
from msgspec import structs

from gpuyard.contracts.hardware import Gpu, GpuSample, Health, Inventory, NodeSample
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import INVENTORY_OF_NODE, NODE, FakeYard, a_job, a_spec

KEYS = {
    "node",
    "index",
    "uuid",
    "model",
    "utilisation",
    "memory_used_bytes",
    "memory_bytes",
    "power_w",
    "power_limit_w",
    "temperature_c",
    "job",
    "job_name",
    "owner",
    "health",
    "health_reason",
    "heard",
    "free",
}


async def busy(yard: FakeYard) -> None:
    await yard.add_node()
    yard.samples[NODE] = NodeSample(
        NODE,
        1.0,
        0,
        gpus=(
            GpuSample("GPU-a", utilisation=0.0, memory_used_bytes=1 << 30, power_w=50.0, temperature_c=30.0),
            GpuSample("GPU-b", utilisation=0.5, memory_used_bytes=2 << 30, power_w=60.0, temperature_c=40.0),
            GpuSample("GPU-d", utilisation=0.9, power_w=250.0, temperature_c=70.0),
        ),
    )
    sick = Gpu("GPU-x", 0, model="L4", health=Health.OUT, health_reason="XID 79\x1b[2J")
    await yard.add_node(Inventory("a1", 1.0, gpus=(sick,)), speaks=True)
    await yard.start(await yard.record(a_job(a_spec(gpus=2, owner="alice"))))


def places(shell: Shell, *arguments: str) -> list[tuple[str, int]]:
    gpus = shell("gpu-top", "--json", *arguments, prepare=busy).json["gpus"]
    return [(gpu["node"], gpu["index"]) for gpu in gpus]


@pytest.mark.parametrize("arguments", [(), ("--once",)])
def test_without_a_terminal_there_is_one_table(shell: Shell, arguments: tuple[str, ...]) -> None:
    result = shell("gpu-top", *arguments, prepare=busy)
    (job,) = shell.yard.jobs
    assert (result.code, result.err) == (0, "")
    assert "\x1b" not in result.out
    header, *lines = result.out.splitlines()
    assert header.split() == [
        *("NODE", "GPU", "MODEL", "UTILISED", "MEMORY", "POWER", "TEMP", "JOB", "OWNER", "HEALTH"),
    ]
    assert lines[0].split() == [
        "a1",
        "0",
        "L4",
        "?",
        "?/?",
        "GiB",
        "?",
        "W",
        "?",
        "-",
        "-",
        "out",
        "(XID",
        "79\\x1b[2J)",
    ]
    assert lines[1].split() == [
        *(NODE, "0", "V100", "0", "%", "1.0/16", "GiB", "50", "W", "30", "°C", job, "alice", "ok"),
    ]
    assert lines[3].split()[3] == "?"


def test_json_has_stable_keys_and_null_for_the_unknown(shell: Shell) -> None:
    document = shell("gpu-top", "--json", prepare=busy).json
    assert document.keys() == {"at_s", "gpus"}
    assert all(gpu.keys() >= KEYS for gpu in document["gpus"])
    first, second = document["gpus"][1], document["gpus"][3]
    assert (first["utilisation"], first["owner"], first["free"]) == (0.0, "alice", False)
    assert (second["utilisation"], second["owner"], second["free"]) == (None, None, True)


def test_options_choose_and_order(shell: Shell) -> None:
    assert places(shell, "--sort", "utilisation")[:3] == [(NODE, 3), (NODE, 1), (NODE, 0)]
    assert places(shell, "--sort", "temperature", "--reverse")[0] == (NODE, 0)
    assert places(shell, "--filter", "alice") == [(NODE, 0), (NODE, 3)]
    assert places(shell, "--filter", "out") == [("a1", 0)]
    assert places(shell, "--free") == [(NODE, 1), (NODE, 2)]
    assert places(shell, "--node", "a1") == [("a1", 0)]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--node", "dgx1"), 3, "Did you mean `dgx1-1`?"),
        (("--sort", "colour"), 2, "--sort"),
    ],
)
def test_mistakes_are_explained(shell: Shell, arguments: tuple[str, ...], code: int, words: str) -> None:
    result = shell("gpu-top", "--once", *arguments, prepare=busy)
    assert (result.code, result.out) == (code, "")
    assert words in result.err


def test_a_silent_node_is_shown_as_silent(shell: Shell) -> None:
    async def silent(yard: FakeYard) -> None:
        await yard.add_node(structs.replace(INVENTORY_OF_NODE, gpus=INVENTORY_OF_NODE.gpus[:1], links=()))

    (line,) = shell("gpu-top", prepare=silent).out.splitlines()[1:]
    assert line.split() == [NODE, "0", "V100", "?", "?/16", "GiB", "?", "W", "?", "-", "-", "silent"]
