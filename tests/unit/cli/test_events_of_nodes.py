import pytest

from gpuyard.contracts.node_event import NodeEvent
from tests.unit.cli.conftest import Shell
from tests.unit.client.fake_yard import NODE, FakeYard, a_job


async def troubled(yard: FakeYard) -> None:
    await yard.add_node()
    await yard.record(a_job(), "queued")
    await yard.happen(NodeEvent(NODE, "xid", 5.0, "XID 79: GPU 3\x1b[2J has fallen off the bus", "GPU-d"))
    await yard.happen(NodeEvent("old", "gpu_lost", 6.0, "it is gone", "GPU-q"))
    await yard.happen(NodeEvent(NODE, "driver_changed", 7.0, "restart the monitor"))


def told(line: str) -> str:
    """Without the moment, which depends on where one is."""
    return line.split("  ", 1)[1]


def test_events_of_one_node(shell: Shell) -> None:
    result = shell("events", "--node", NODE, prepare=troubled)
    assert result.code == 0
    assert [told(line) for line in result.out.splitlines()] == [
        "dgx1-1 GPU 3  xid         XID 79: GPU 3\\x1b[2J has fallen off the bus",
        "dgx1-1  driver_changed  restart the monitor",
    ]


def test_events_of_all_nodes_name_gpus_that_are_gone_by_uuid(shell: Shell) -> None:
    lines = shell("events", "--nodes", prepare=troubled).out.splitlines()
    assert [told(line).split()[0] for line in lines] == [NODE, "old", NODE]
    assert "old GPU GPU-q  gpu_lost" in lines[1]


def test_node_events_as_json(shell: Shell) -> None:
    events = shell("events", "--nodes", "--json", prepare=troubled).json_lines
    assert [(event["kind"], event["gpu"]) for event in events] == [
        ("xid", "GPU-d"),
        ("gpu_lost", "GPU-q"),
        ("driver_changed", None),
    ]
    rest = shell("events", "--nodes", "--json", "--after", str(events[0]["seq"]), prepare=troubled)
    assert rest.json_lines == events[1:]


def test_without_the_word_only_jobs_are_told(shell: Shell) -> None:
    assert [event["kind"] for event in shell("events", "--json", prepare=troubled).json_lines] == ["queued"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("train", "--nodes"), 2, "Name a job, or use --node or --nodes."),
        (("train", "--node", NODE), 2, "no node events"),
        (("--node", "dgx1"), 3, "Did you mean `dgx1-1`?"),
        (("--nodes", "--after", "-1"), 2, "--after"),
    ],
)
def test_mistakes_are_explained(shell: Shell, arguments: tuple[str, ...], code: int, words: str) -> None:
    result = shell("events", *arguments, prepare=troubled)
    assert (result.code, result.out) == (code, "")
    assert words in result.err
