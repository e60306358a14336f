import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from itertools import count
from typing import Any

import pytest
from msgspec import structs

from gpuyard.cli import probe as command
from gpuyard.cli import session
from gpuyard.cli.probe_words import SHUNNED
from gpuyard.client.aio import AsyncClient
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.figures import Figures
from gpuyard.contracts.hardware import Gpu, Health, Inventory, NodeSample
from gpuyard.contracts.job import Exit, ExitCause, Job, JobSpec, JobState, Reason
from gpuyard.contracts.log import ERR
from gpuyard.contracts.placement import Placement, Slot
from gpuyard.contracts.request import Cancel
from gpuyard.contracts.subjects import FIGURES_STREAM, INVENTORY, SAMPLE
from tests.unit.cli.conftest import Prepare, Shell
from tests.unit.client import fake_yard as fakes
from tests.unit.client.fake_yard import INVENTORY_OF_NODE, NODE, FakeYard, a_job, a_spec, fake_yard

NODE_INVENTORY = structs.replace(INVENTORY_OF_NODE, simulated=False)
EVERY_GPU = Placement((Slot(0, "main", NODE, 0, 0, ("GPU-a", "GPU-b", "GPU-c", "GPU-d")),))
PLAN = '{"type":"plan","gpus":["GPU-a","GPU-b","GPU-d"],"groups":[2,3]}'
GROUP = '{"type":"group","gpus":["GPU-d","GPU-a"],"gb_s":45.5,"sums":30,"wrong":0}'
DONE = '{"type":"done"}'

_background: set[asyncio.Task[None]] = set()


def pair(a: str, b: str, gb_s: float, back_gb_s: float, wrong: int = 0) -> str:
    return (
        f'{{"type":"pair","a":"GPU-{a}","b":"GPU-{b}","gb_s":[{gb_s},{back_gb_s}],'
        f'"copies":[10,10],"wrong":[0,{wrong}],"p2p":true}}'
    )


SOUND = (PLAN, pair("a", "b", 24.0, 24.1), pair("a", "d", 48.2, 48.4), pair("b", "d", 9.6, 9.5), GROUP, DONE)


def background(coroutine: Coroutine[None, None, None]) -> None:
    task = asyncio.create_task(coroutine)
    _background.add(task)
    task.add_done_callback(_background.discard)


async def speak(yard: FakeYard, node: str) -> None:
    """A monitor's samples, so that the node is heard."""
    for seq in count():
        await yard.bus.publish(SAMPLE(node=node), encode(NodeSample(node, 1.0, seq)))
        await asyncio.sleep(0.01)


async def take_figures(yard: FakeYard) -> None:
    """The part of a monitor that takes figures in."""
    async with yard.bus.work(FIGURES_STREAM, "monitor") as work:
        async for delivery in work:
            figures = decode(delivery.message.payload, Figures)
            stored.append(figures)
            inventory = structs.replace(NODE_INVENTORY, probed_at_s=figures.at_s)
            await yard.bus.append(INVENTORY(node=figures.node), encode(inventory))
            await delivery.ack()


stored: list[Figures] = []


@pytest.fixture(autouse=True)
def nothing_stored() -> None:
    stored.clear()


async def with_node(yard: FakeYard, inventory: Inventory = NODE_INVENTORY) -> None:
    await yard.add_node(inventory)
    background(speak(yard, inventory.node))


def telling(
    *findings: str,
    state: JobState = JobState.SUCCEEDED,
    exit_: Exit | None = None,
    is_taken: bool = True,
) -> Prepare:
    """A yard whose probe job prints these findings, among other things."""

    async def script(yard: FakeYard, job: Job) -> None:
        job = await yard.start(job)
        lines = [f"gpuyard-probe {finding}" for finding in findings]
        await yard.print_lines(job, 0, *lines)
        await yard.print_lines(job, 0, "a warning", first=len(lines), stream=ERR, end=True)
        await yard.end(job, state, exit_)

    async def prepare(yard: FakeYard) -> None:
        yard.script = script
        await with_node(yard)
        if is_taken:
            background(take_figures(yard))

    return prepare


def test_a_probe_shows_measured_against_expected_and_stores_the_figures(shell: Shell) -> None:
    result = shell("probe", prepare=telling(*SOUND))
    assert result.code == 0, result.err
    head, columns, *rows = result.out.splitlines()
    assert head == "GB/s from row to column, measured/expected"
    assert columns.split() == ["GPU0", "GPU1", "GPU3"]
    assert [row.split() for row in rows[:3]] == [
        ["GPU0", "-", "24.0/24.1", "48.2/48.2"],
        ["GPU1", "24.1/24.1", "-", "9.6/10.2"],
        ["GPU3", "48.4/48.2", "9.5/10.2", "-"],
    ]
    assert rows[3:] == ["all-reduce over GPU 0,3: 45.5 GB/s bus bandwidth"]
    assert "[2/3] GPU 0-3: 48.2 GB/s, 48.2 expected" in result.err
    assert "a warning" in result.err
    ((job,),) = [shell.yard.jobs.values()]
    (figures,) = stored
    assert (figures.node, figures.probe, figures.at_s) == (NODE, job.id, job.ended_at_s)
    assert [(each.a, each.b, each.gb_s) for each in figures.pairs] == [
        ("GPU-a", "GPU-b", 24.0),
        ("GPU-a", "GPU-d", 48.2),
        ("GPU-b", "GPU-d", 9.5),
    ]
    assert [(each.gpus, each.gb_s) for each in figures.groups] == [(2, 45.5)]


def test_the_job_takes_all_gpus_of_that_node_as_one_rank(shell: Shell) -> None:
    shell("probe", NODE, "--quick", prepare=telling(*SOUND))
    (job,) = shell.yard.jobs.values()
    assert (job.spec.nodes, job.spec.gpu_count, job.spec.rank_count) == ((NODE,), 4, 1)
    assert "--quick" in job.spec.tasks[0].command
    assert job.spec.workdir.startswith("sha256-")
    shell("probe", NODE, "--gpus", "3", prepare=telling(*SOUND))
    (job,) = shell.yard.jobs.values()
    assert job.spec.gpu_count == 3


def test_a_notable_difference_is_named(shell: Shell) -> None:
    slow = (PLAN, pair("a", "b", 24.0, 24.0), pair("a", "d", 12.3, 48.0), DONE)
    result = shell("probe", prepare=telling(*slow))
    assert result.code == 0
    assert result.out.splitlines()[-1] == "GPU 0-3: 12.3 GB/s measured, 48.2 expected"


def test_a_corrupted_pair_is_loud_and_stored_as_such(shell: Shell) -> None:
    corrupt = (PLAN, pair("a", "b", 24.0, 24.0), pair("a", "d", 48.0, 48.0, wrong=3), DONE)
    result = shell("probe", prepare=telling(*corrupt))
    assert result.code == 1
    assert "WRONG" in result.out.splitlines()[4].split()
    words = f"GPU 0-3: WRONG PAYLOAD in copies: 3 of 10 from 3 to 0; {SHUNNED}"
    assert words in result.out
    assert words in result.err
    (figures,) = stored
    assert [(each.a, each.b, each.sound) for each in figures.pairs] == [
        ("GPU-a", "GPU-b", True),
        ("GPU-a", "GPU-d", False),
    ]


def test_wrong_sums_are_loud_and_not_stored(shell: Shell) -> None:
    result = shell(
        "probe", prepare=telling(PLAN, pair("a", "b", 24, 24), GROUP.replace('"wrong":0', '"wrong":2'), DONE)
    )
    assert result.code == 1
    assert "all-reduce over GPU 0,3: WRONG SUMS, 2 of 30; not stored" in result.out
    assert stored[0].groups == ()


def test_pairs_survive_a_failed_all_reduce(shell: Shell) -> None:
    failed = '{"type":"failed","message":"all-reduce failed: no shared memory"}'
    result = shell("probe", prepare=telling(PLAN, pair("a", "b", 24, 24), failed, DONE))
    assert result.code == 1
    assert "no shared memory" in result.out
    assert len(stored[0].pairs) == 1


def test_json(shell: Shell) -> None:
    view = shell("probe", "--json", prepare=telling(*SOUND)).json
    assert (view["node"], view["is_sound"], view["is_stored"], view["remarks"]) == (NODE, True, True, [])
    assert view["pairs"][1] == {
        "a": 0,
        "b": 3,
        "gb_s": [48.2, 48.4],
        "expected_gb_s": 48.2,
        "p2p": True,
        "is_sound": True,
    }
    assert view["groups"] == [{"gpus": [0, 3], "gb_s": 45.5, "is_sound": True}]


def test_figures_nobody_takes_in_are_shown_and_end_with_124(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "STORE_TIMEOUT_S", 0.05)

    result = shell("probe", prepare=telling(*SOUND, is_taken=False))
    assert result.code == 124
    assert "the figures are recorded, but the monitor" in result.err
    assert "48.2/48.2" in result.out


def test_pairs_are_shown_upwards_in_whatever_order_the_rank_sees_its_gpus(shell: Shell) -> None:
    turned = (PLAN, pair("d", "a", 48.4, 40.2, wrong=1), pair("b", "a", 23.9, 24.1), DONE)
    result = shell("probe", "--json", prepare=telling(*turned))
    view = result.json
    assert [(each["a"], each["b"], each["gb_s"]) for each in view["pairs"]] == [
        (0, 3, [40.2, 48.4]),
        (0, 1, [24.1, 23.9]),
    ]
    (remark,) = view["remarks"]
    assert remark.startswith("GPU 0-3: WRONG PAYLOAD in copies: 1 of 10 from 0 to 3; counts as 0 GB/s")
    assert "[2/3] GPU 0-1: 23.9 GB/s" in result.err


# What can't be probed


def refused(*inventories: Inventory) -> Prepare:
    async def prepare(yard: FakeYard) -> None:
        for inventory in inventories:
            await with_node(yard, inventory)

    return prepare


ONE_GPU = Inventory("small", 1.0, gpus=(Gpu("GPU-x", 0),))
SICK = structs.replace(
    NODE_INVENTORY,
    gpus=(
        NODE_INVENTORY.gpus[0],
        *(structs.replace(gpu, health=Health.OUT, health_reason="ECC") for gpu in NODE_INVENTORY.gpus[1:]),
    ),
)
OTHER = structs.replace(NODE_INVENTORY, node="dgx1-2")


@pytest.mark.parametrize(
    ("inventories", "arguments", "code", "words"),
    [
        ((), (), 4, "no node here has two real GPUs"),
        ((ONE_GPU,), ("small",), 4, "small has 1 GPU, so there is no link to measure"),
        ((Inventory("cpu", 1.0),), ("cpu",), 4, "cpu has no GPUs, so"),
        ((INVENTORY_OF_NODE,), (NODE,), 4, "is simulated: there are no GPUs behind it"),
        ((NODE_INVENTORY,), (NODE, "--device", "cpu"), 4, "has real GPUs"),
        ((SICK,), (NODE,), 4, "GPU 1: ECC"),
        ((NODE_INVENTORY,), (NODE, "--gpus", "5"), 4, "only 4 of the 4 GPUs"),
        ((NODE_INVENTORY,), (NODE, "--gpus", "1"), 2, "at least 2"),
        ((NODE_INVENTORY, OTHER), (), 2, "One of dgx1-1, dgx1-2."),
        ((NODE_INVENTORY,), ("dgx1-9",), 3, "Did you mean `dgx1-1`?"),
    ],
)
def test_what_cannot_be_probed_is_refused_in_words(
    shell: Shell, inventories: tuple[Inventory, ...], arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = shell("probe", *arguments, prepare=refused(*inventories))
    assert (result.code, result.out) == (code, "")
    assert words in result.err
    assert shell.yard.jobs == {}


def test_a_garbled_finding_ends_the_probe_in_words(shell: Shell) -> None:
    result = shell("probe", prepare=telling(PLAN, '{"type":"pair","a":"GPU-a"', DONE))
    assert result.code == 1
    assert "the probe printed a finding that can't be read: " in result.err
    assert "gpuyard logs probe-dgx1-1-" in result.err
    assert "Traceback" not in result.err
    assert stored == []


def test_without_torch_it_says_what_to_install(shell: Shell) -> None:
    unfit = '{"type":"unfit","message":"torch can\'t be imported","hint":"`pip install torch`"}'
    result = shell("probe", prepare=telling(unfit, state=JobState.FAILED, exit_=Exit(3)))
    assert result.code == 4
    assert "pip install torch" in result.err
    assert stored == []


def test_a_probe_that_breaks_off_stores_nothing(shell: Shell) -> None:
    died = Exit(134, ExitCause.GPU_FAULT, "it aborted", 0)
    result = shell("probe", prepare=telling(*SOUND[:3], state=JobState.FAILED, exit_=died))
    assert result.code == 1
    assert "it aborted" in result.err
    assert "gpuyard logs probe-dgx1-1-" in result.err
    assert stored == []


# When others hold GPUs


def held(*findings: str) -> Prepare:
    """Somebody trains on two of the four GPUs."""

    async def prepare(yard: FakeYard) -> None:
        await yard.start(await yard.record(a_job(a_spec(gpus=2))))
        await telling(*findings)(yard)

    return prepare


def test_who_is_in_the_way_is_named_and_waited_for(shell: Shell) -> None:
    result = shell("probe", prepare=held(*SOUND))
    assert result.code == 0
    training, probing = shell.yard.jobs
    assert f"2 GPUs of {NODE} free, 4 needed: waiting for {training}" in result.err
    assert shell.yard.jobs[probing].spec.gpu_count == 4


def test_who_does_not_wait_probes_what_is_free(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def placed_at_once(spec: JobSpec, **fields: Any) -> Job:
        return structs.replace(a_job(spec, **fields), reason=None)

    monkeypatch.setattr(fakes, "a_job", placed_at_once)
    result = shell("probe", "--no-wait", prepare=held(*SOUND))
    assert result.code == 0, result.err
    *_, job = shell.yard.jobs.values()
    assert job.spec.gpu_count == 2
    assert "waiting" not in result.err


def test_who_does_not_wait_is_refused_where_too_few_are_free(shell: Shell) -> None:
    result = shell("probe", "--no-wait", "--gpus", "3", prepare=held())
    assert result.code == 4
    assert "2 GPUs of dgx1-1 can be had now, 3 are needed" in result.err
    assert f"Held by {next(iter(shell.yard.jobs))}" in result.err


def test_who_does_not_wait_gives_up_when_somebody_was_faster(shell: Shell) -> None:
    async def queued(yard: FakeYard, job: Job) -> None:
        await yard.record(job, reason=Reason("waiting_for_gpus", "2 of 4 GPUs are free", "It starts later."))

    async def prepare(yard: FakeYard) -> None:
        yard.script = queued
        await with_node(yard)

    result = shell("probe", "--no-wait", prepare=prepare)
    assert result.code == 4
    assert "it would have to wait" in result.err
    assert [job.state for job in shell.yard.jobs.values()] == [JobState.CANCELLED]


async def test_leaving_cancels_the_probe(shell: Shell, capfd: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C arrives as a cancellation of the command."""
    running = asyncio.Event()

    async def never_ending(yard: FakeYard, job: Job) -> None:
        await yard.start(job)
        running.set()

    async with fake_yard() as yard:
        yard.script = never_ending
        await with_node(yard)

        def connect(_: str | None) -> AbstractAsyncContextManager[AsyncClient]:
            return AsyncClient(bus=yard.bus)

        with session.connecting(connect):
            task = asyncio.create_task(command.probe())
            await running.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        (job,) = yard.jobs.values()
    assert job.state is JobState.CANCELLED
    assert isinstance(yard.requests[-1], Cancel)
    assert f"cancelled {job.id}" in capfd.readouterr().err
