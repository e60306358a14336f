"""Nothing that fails once, or vanishes, may end the executor or leave a gang hanging."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gpuyard.bus.memory import MemoryBus
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.fact import RankState
from gpuyard.contracts.job import ExitCause, TaskSpec
from gpuyard.contracts.log import partition_of
from gpuyard.contracts.subjects import FACT, FACTS_STREAM, LOG, LOGS_STREAM, REJECTS_STREAM, STREAMS
from gpuyard_executor.node import Node, _size_of
from gpuyard_executor.progress import ProgressFile
from gpuyard_executor.shipper import Shipper
from gpuyard_executor.workdirs import Workdirs
from tests.unit.executor.orders import NODE, prepare, stop
from tests.unit.executor.test_service import GENEROUS_S, Rig


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "node", MemoryBus())


def fail_at_first(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: Exception) -> None:
    work, failures = getattr(owner, name), [error]

    def failing(*args: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return work(*args, **options)

    monkeypatch.setattr(owner, name, failing)


def test_directories_that_vanish_count_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "out.0").write_bytes(b"12345")
    (tmp_path / "stranger").write_bytes(b"1")
    iterdir = Path.iterdir

    def vanishing(path: Path) -> Any:
        if path.name == "a":
            raise FileNotFoundError(path)
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", vanishing)
    assert _size_of(tmp_path) == 5
    assert _size_of(tmp_path / "nowhere") == 0


async def test_a_figure_that_can_not_be_had_ends_no_service(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at_first(monkeypatch, Node, "stand", OSError(5, "Input/output error"))
    async with rig.running():
        await rig.give(prepare())
        assert (await rig.fact("j1")).ranks[0].exit


async def test_a_fact_nobody_can_read_is_set_aside(rig: Rig) -> None:
    await rig.bus.ensure(STREAMS)
    await rig.bus.append(FACT(node=NODE, job="j0"), b"\xc1")
    async with rig.running():
        await rig.give(prepare())
        assert (await rig.fact("j1")).ranks[0].exit
        assert await rig.bus.last(REJECTS_STREAM, "gpuyard.rejected.fact")


@pytest.mark.parametrize(
    ("owner", "name"), [(ProgressFile, "read"), (Shipper, "run"), (ProgressFile, "remove")]
)
async def test_what_fails_is_done_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    async with rig.running():
        await rig.give(prepare(tasks=(TaskSpec(("wait",)),)))
        assert (await rig.fact("j1", released=False)).ranks[0].state is RankState.RUNNING
    fail_at_first(monkeypatch, owner, name, OSError(5, "Input/output error"))
    async with rig.running() as engine:
        await rig.give(stop())
        await rig.fact("j1")
        async with asyncio.timeout(GENEROUS_S):
            while engine.world:
                await asyncio.sleep(0.001)
    assert await rig.bus.last(LOGS_STREAM, LOG(partition=partition_of("j1"), job="j1", attempt=1, rank=0))


class ForgetfulBus(MemoryBus):
    """It does not hear the first order to trim."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 1

    async def trim(self, *args: Any, **options: Any) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("no answer")
        await super().trim(*args, **options)


async def test_a_fact_is_dropped_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard_executor.core.gangs._KEPT_FACTS", 1)
    rig = Rig(tmp_path / "node", ForgetfulBus())
    async with rig.running(), asyncio.timeout(GENEROUS_S):
        for job in ("j1", "j2"):
            await rig.give(stop(job))
            await rig.fact(job)
        while await rig.bus.last(FACTS_STREAM, FACT(node=NODE, job="j1")):
            await asyncio.sleep(0.001)


async def test_whatever_fails_a_working_directory_fails_the_launch(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at_first(monkeypatch, Workdirs, "make", RuntimeError("can't start new thread"))
    async with rig.running():
        await rig.give(prepare(workdir="sha256-0"))
        exited = (await rig.fact("j1")).ranks[0].exit
    assert exited
    assert exited.cause is ExitCause.LAUNCH
    assert "can't start new thread" in exited.message


async def test_readiness_follows_the_bus(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuyard_executor.service.BEAT_S", 0.001)
    async with rig.running(), asyncio.timeout(GENEROUS_S):
        for connected in (True, False, True):
            rig.bus.connected = connected
            while rig.health.is_ready is not connected:
                await asyncio.sleep(0.001)
            assert rig.health.why == ("" if connected else "the bus does not answer")
