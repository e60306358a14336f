"""Spans across services: the context travels in message headers as W3C traceparent.

Only the OpenTelemetry API is imported here; without a configured exporter a span costs next to nothing.
`export_to` brings in the SDK.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

HEADER = "traceparent"
_PARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_tracer = trace.get_tracer("gpuyard")


@contextmanager
def span(
    name: str, *, parent: Mapping[str, str] | str = "", **attributes: str | int | float
) -> Iterator[Span]:
    """Run the body inside a span, continuing the trace of `parent` (headers or a traceparent)."""
    started = start(name, parent=parent, **attributes)
    with trace.use_span(started, end_on_exit=True):
        yield started


def start(name: str, *, parent: Mapping[str, str] | str = "", **attributes: str | int | float) -> Span:
    """Start a span that outlives a block; the caller ends it."""
    return _tracer.start_span(
        name, _context(parent), attributes={f"gpuyard.{k}": v for k, v in attributes.items()}
    )


def headers() -> dict[str, str]:
    """Message headers that carry the current span on; empty if there is none."""
    return headers_of(trace.get_current_span())


def headers_of(current: Span) -> dict[str, str]:
    """Message headers that carry this span on."""
    it = current.get_span_context()
    return {HEADER: f"00-{it.trace_id:032x}-{it.span_id:016x}-{it.trace_flags:02x}"} if it.is_valid else {}


def _context(parent: Mapping[str, str] | str) -> otel_context.Context | None:
    text = parent if isinstance(parent, str) else parent.get(HEADER, "")
    match = _PARENT.fullmatch(text)
    if match is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in match.groups())
    remote = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return set_span_in_context(NonRecordingSpan(remote))


def export_to(url: str, service: str) -> None:
    """Send spans to an OTLP collector over HTTP, for example `http://localhost:4318/v1/traces`."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    provider = TracerProvider(resource=Resource.create({"service.name": f"gpuyard-{service}"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)))
    trace.set_tracer_provider(provider)
