import asyncio
from pathlib import Path

import pytest
from msgspec import structs

from gpuyard.bus.memory import MemoryBus
from gpuyard.client.probe import (
    Done,
    Failed,
    Finding,
    Findings,
    Garbled,
    Group,
    Pair,
    Plan,
    Unfit,
    figures_of,
    parse_line,
    probe_job,
    shipped_program,
    store,
)
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.figures import Figures, GroupFigure, PairFigure
from gpuyard.contracts.hardware import Inventory
from gpuyard.contracts.log import ERR, OUT, LogLine
from gpuyard.contracts.subjects import FIGURES, FIGURES_STREAM, INVENTORY, NODES_STREAM
from gpuyard.probe import report
from tests.unit.client.fake_yard import a_job

PLAN = Plan(("GPU-a", "GPU-b", "GPU-c"), (2, 3))
SOUND = Pair("GPU-a", "GPU-b", (24.0, 23.0), (10, 10), (0, 0), True)
CORRUPT = Pair("GPU-a", "GPU-c", (9.0, 9.0), (10, 10), (0, 3), True)
GROUP = Group(("GPU-a", "GPU-b"), 20.0, 30, 0)
BAD_GROUP = Group(("GPU-a", "GPU-b", "GPU-c"), 9.0, 30, 1)
FIGURES_OF_NODE = Figures("n0", 7.0, "probe-n0-abc", (PairFigure("GPU-a", "GPU-b", 23.0),))


def line(text: bytes, stream: int = OUT) -> LogLine:
    return LogLine("probe-n0-abc", 1, 0, 0, stream, 1.0, text)


def test_what_the_program_tells_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    findings = (PLAN, SOUND, GROUP, Unfit("no torch", "install it"), Failed("it broke"), Done())
    for finding in findings:
        report.tell(str(finding.__struct_config__.tag), **structs.asdict(finding))
    told = capsys.readouterr().out.splitlines()
    assert tuple(parse_line(line(text.encode())) for text in told) == findings


@pytest.mark.parametrize(
    "other", [line(b"hello"), line(b""), line(b"\xff"), line(b'gpuyard-probe {"type":"done"}', ERR)]
)
def test_other_output_is_no_finding(other: LogLine) -> None:
    assert parse_line(other) is None


def taken(*findings: Finding) -> Findings:
    kept = Findings()
    for finding in findings:
        kept.take(finding)
    return kept


def test_a_new_attempt_begins_anew() -> None:
    findings = taken(PLAN, CORRUPT, Failed("it broke"), PLAN, SOUND, Done())
    assert (findings.pairs, findings.failures, findings.is_sound) == ([SOUND], [], True)


@pytest.mark.parametrize(
    "told", [(SOUND,), (SOUND, CORRUPT, Done()), (BAD_GROUP, Done()), (Failed("it broke"), Done())]
)
def test_what_is_incomplete_or_wrong_is_not_sound(told: tuple[Finding, ...]) -> None:
    assert not taken(PLAN, *told).is_sound


def test_the_slower_way_counts_and_a_link_that_corrupts_is_told_as_such() -> None:
    job = structs.replace(a_job(), id="probe-n0-abc", ended_at_s=7.0)
    figures = figures_of("n0", job, taken(PLAN, SOUND, CORRUPT, GROUP, BAD_GROUP, Done()))
    pairs = (*FIGURES_OF_NODE.pairs, PairFigure("GPU-a", "GPU-c", 9.0, sound=False))
    assert figures == structs.replace(FIGURES_OF_NODE, pairs=pairs, groups=(GroupFigure(2, 20.0),))


def test_copies_that_never_arrive_may_seem_to_run_at_any_rate(capsys: pytest.CaptureFixture[str]) -> None:
    instant = structs.replace(CORRUPT, gb_s=(250_000.0, 134_000.0))
    report.tell("pair", **structs.asdict(instant))
    told = parse_line(line(capsys.readouterr().out.strip().encode()))
    assert told == instant
    job = structs.replace(a_job(), id="probe-n0-abc", ended_at_s=7.0)
    figures = figures_of("n0", job, taken(PLAN, instant, Done()))
    assert decode(encode(figures), Figures).pairs[0].sound is False


@pytest.mark.parametrize(
    "garbled",
    [
        b"",
        b'{"type":"pair","a":"GPU-a"',
        b'{"type":"nonsense"}',
        b'{"type":"plan","gpus":3,"groups":[]}',
        b'{"type":"group","gpus":["GPU-a"],"gb_s":0.0,"sums":1,"wrong":0}',
        b'{"type":"failed","message":"\xff"}',
    ],
)
def test_a_marked_line_that_can_not_be_read_is_an_error_in_words(garbled: bytes) -> None:
    with pytest.raises(Garbled, match="a finding that can't be read: ") as caught:
        parse_line(line(b"gpuyard-probe " + garbled))
    assert "gpuyard logs probe-n0-abc" in caught.value.hint


def test_the_job_is_one_rank_with_all_gpus_on_that_node() -> None:
    spec = probe_job("dgx1-1", 8, is_quick=True)
    assert (spec.nodes, spec.rank_count, spec.gpu_count) == (("dgx1-1",), 1, 8)
    assert spec.tasks[0].command == ("python", "-m", "probe", "--device", "cuda", "--quick")


async def test_the_program_is_shipped_without_leftovers() -> None:
    async with shipped_program() as folder:
        assert (folder / "probe" / "__main__.py").is_file()
        assert not list(folder.rglob("__pycache__"))
    assert not Path(folder).exists()


async def bus_with(inventory: Inventory) -> MemoryBus:
    bus = MemoryBus()
    await bus.ensure((NODES_STREAM, FIGURES_STREAM))
    await bus.append(INVENTORY(node="n0"), encode(inventory))
    return bus


async def test_storing_waits_until_the_inventory_carries_the_figures() -> None:
    bus = await bus_with(Inventory("n0", 1.0, probed_at_s=6.0))
    async with bus.work(FIGURES_STREAM, "monitor-n0", subject=FIGURES(node="n0")) as work:
        storing = asyncio.create_task(store(bus, FIGURES_OF_NODE, timeout_s=60))
        delivery = await anext(work)
        assert decode(delivery.message.payload, Figures) == FIGURES_OF_NODE
        assert not storing.done(), "an older probe is not this one"
        await bus.append(INVENTORY(node="n0"), encode(Inventory("n0", 2.0, probed_at_s=7.0)))
        await storing


async def test_a_monitor_that_is_away_does_not_lose_the_figures() -> None:
    bus = await bus_with(Inventory("n0", 1.0))
    with pytest.raises(TimeoutError, match="recorded, but the monitor of n0"):
        await store(bus, FIGURES_OF_NODE, timeout_s=0.05)
    message = await bus.last(FIGURES_STREAM, FIGURES(node="n0"))
    assert message
    assert decode(message.payload, Figures) == FIGURES_OF_NODE
