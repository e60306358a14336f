"""One trace from submit to exit, across the services, all in this process on the bus in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from gpuyard import AsyncClient, JobSpec, JobState, TaskSpec
from gpuyard.bus.memory import MemoryBus
from gpuyard.runtime.clock import SystemClock
from gpuyard.runtime.health import Health
from gpuyard.runtime.service import Context, Service
from gpuyard.telemetry.metrics import Metrics
from gpuyard_executor import main as executor
from gpuyard_executor.config import ExecutorConfig
from gpuyard_logger import main as logger
from gpuyard_logger.config import LoggerConfig
from gpuyard_monitor import main as monitor
from gpuyard_monitor.config import MonitorConfig, NodeConfig
from gpuyard_scheduler import main as scheduler
from gpuyard_scheduler.config import SchedulerConfig

NODE = "n1"


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """The process's tracer provider can be set only once: no other test may set one."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@asynccontextmanager
async def four_services(bus: MemoryBus, folder: Path) -> AsyncIterator[None]:
    def context(name: str) -> Context:
        return Context(name, bus, SystemClock(), Health(), Metrics(), structlog.get_logger())

    services: list[Service] = [
        monitor.build(MonitorConfig(nodes=(NodeConfig(NODE, "azure-ndv2-v100-8gpu"),)), context("monitor")),
        scheduler.build(SchedulerConfig(), context("scheduler")),
        executor.build(ExecutorConfig(nodes=(NODE,), dir=str(folder / "executor")), context("executor")),
        logger.build(LoggerConfig(dir=str(folder / "logger"), seal_s=0.01), context("logger")),
    ]
    tasks = [asyncio.create_task(service.run()) for service in services]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_job_is_one_trace(tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    bus = MemoryBus()
    async with four_services(bus, tmp_path), AsyncClient(bus=bus, timeout_s=60) as client:
        spec = JobSpec((TaskSpec(("echo", "hello"), gpus=2),), name="traced")
        job = await client.submit(spec)
        lines = [line.text async for line in client.logs(job, follow=True)]
        job = await client.wait(job, timeout_s=60)
        spans = await spans_of(exporter, job.trace, ends=2)
    assert job.state is JobState.SUCCEEDED, job
    assert lines == [b"hello", b"hello"]
    names = {span.name for span in spans}
    assert {
        "client.submit",
        "scheduler.commit",
        "scheduler.prepare",
        "executor.run",
        "logger.persist",
    } <= names, names
    ids = {span.context.span_id for span in spans if span.context}
    orphans = [span.name for span in spans if span.parent and span.parent.span_id not in ids]
    assert not orphans
    assert [span.name for span in spans if span.parent is None] == ["client.submit"]


async def spans_of(exporter: InMemorySpanExporter, traceparent: str, ends: int) -> list[ReadableSpan]:
    """Spans of a trace, once so many ranks' output was stored to its end: that is the last that happens."""
    async with asyncio.timeout(60):
        while True:
            spans = [span for span in exporter.get_finished_spans() if in_trace(span, traceparent)]
            if sum(span.name == "logger.persist" for span in spans) >= ends:
                return spans
            await asyncio.sleep(0.01)


def in_trace(span: ReadableSpan, traceparent: str) -> bool:
    return span.context is not None and f"{span.context.trace_id:032x}" == traceparent.split("-")[1]
