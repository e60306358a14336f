"""The scheduler's shell on the bus in memory."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import structlog

from gpuyard.bus.memory import MemoryBus
from gpuyard.client import asking
from gpuyard.contracts.codec import decode, encode
from gpuyard.contracts.errors import Unavailable
from gpuyard.contracts.fact import Beat, ExecutorInfo
from gpuyard.contracts.hardware import GpuSample, NodeSample
from gpuyard.contracts.job import Job, JobState
from gpuyard.contracts.request import Cancel, Submit
from gpuyard.contracts.subjects import BEAT, EXECUTOR, INVENTORY, JOB, SAMPLE, STATE_STREAM
from gpuyard.runtime.clock import SystemClock
from gpuyard.runtime.health import Health
from gpuyard.runtime.service import Context
from gpuyard.telemetry.metrics import Metrics
from gpuyard_scheduler.config import SchedulerConfig
from gpuyard_scheduler.core.events import BeatSeen, Event, LoadSeen, Requested
from gpuyard_scheduler.core.machine import Machine
from gpuyard_scheduler.service import SchedulerService
from tests.unit.scheduler.world import inventory, spec


@pytest.fixture
async def context() -> AsyncIterator[Context]:
    context = Context("scheduler", MemoryBus(), SystemClock(), Health(), Metrics(), structlog.get_logger())
    task = asyncio.create_task(SchedulerService(SchedulerConfig(), context, "test").run())
    while not context.health.is_ready:
        assert not task.done(), task
        await asyncio.sleep(0.01)
    yield context
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_event_that_meets_a_bug_is_skipped_and_counted(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = Machine.handle

    def stumbling(self: Machine, event: Event, now_s: float, mono_s: float) -> None:
        if isinstance(event, Requested) and isinstance(event.request, Cancel):
            raise AssertionError("a bug")
        handle(self, event, now_s, mono_s)

    monkeypatch.setattr(Machine, "handle", stumbling)
    with pytest.raises(Unavailable):
        await asking.ask(context.bus, Cancel("r1", "some-job"), timeout_s=0.2)
    accepted = await asking.ask(context.bus, Submit("r2", spec(1)), timeout_s=10.0)
    assert accepted.state is JobState.QUEUED
    assert b"gpuyard_scheduler_skipped_events_total 1.0" in context.metrics.render()
    assert context.health.is_ready


async def test_an_inventory_that_contradicts_itself_is_set_aside(context: Context) -> None:
    broken = encode(inventory("a", 2)).replace(b"\xa1b\x01", b"\xa1b\x09")
    await context.bus.append(INVENTORY(node="a"), broken)
    accepted = await asking.ask(context.bus, Submit("r1", spec(1)), timeout_s=10.0)
    assert accepted.state is JobState.QUEUED
    assert b'gpuyard_rejected_total{subject="gpuyard.inventory"} 1.0' in context.metrics.render()


async def test_measured_load_decides_between_equal_nodes(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle, bus = Machine.handle, context.bus
    seen: set[tuple[type[Event], str]] = set()

    def listening(self: Machine, event: Event, now_s: float, mono_s: float) -> None:
        handle(self, event, now_s, mono_s)
        if isinstance(event, LoadSeen | BeatSeen):
            seen.add((type(event), event.node))

    monkeypatch.setattr(Machine, "handle", listening)
    for node in ("a", "b"):
        await bus.append(INVENTORY(node=node), encode(inventory(node, 1)))
        await bus.append(EXECUTOR(node=node), encode(ExecutorInfo(node, 0.0, "memory", "127.0.0.1")))
    busy = NodeSample("a", 0.0, 0, gpus=(GpuSample("GPU-a-0", utilisation=0.9),))
    while len(seen) < 3:
        await bus.publish(SAMPLE(node="a"), b"nonsense harms nobody")
        await bus.publish(SAMPLE(node="a"), encode(busy))
        await bus.publish(BEAT(node="a"), encode(Beat("a", 0.0)))
        await bus.publish(BEAT(node="b"), encode(Beat("b", 0.0)))
    accepted = await asking.ask(bus, Submit("r1", spec(1)), timeout_s=10.0)
    assert accepted.state is JobState.QUEUED
    while (job := await record_of(context, accepted.job)).placement is None:
        await asyncio.sleep(0.01)
    assert job.placement.nodes == ("b",)


async def record_of(context: Context, job: str) -> Job:
    message = await context.bus.last(STATE_STREAM, JOB(job=job))
    assert message
    return decode(message.payload, Job)
