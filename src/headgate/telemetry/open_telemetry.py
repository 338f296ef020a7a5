"""Traces of attempts as OpenTelemetry spans. Needs the extra `telemetry`.

Where spans go is said the way OpenTelemetry says it everywhere: `OTEL_TRACES_EXPORTER`, `OTEL_EXPORTER_OTLP_ENDPOINT`
and the rest of its variables. A process that has set up OpenTelemetry itself keeps what it has set up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import entry_points
from typing import Any

from headgate._version import __version__
from headgate.errors import InvalidSettings, MissingExtra
from headgate.telemetry.metrics import COMPLETED
from headgate.telemetry.traces import TellOutcome

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
    from opentelemetry.trace import StatusCode
except ImportError as error:
    raise MissingExtra(
        message="traces need opentelemetry-sdk, which is not installed",
        hint="pip install 'headgate[telemetry]'",
        extra="telemetry",
    ) from error

_EXPORTER = "OTEL_TRACES_EXPORTER"
_FLUSH_MS = 2000


class OpenTelemetryTraces:
    """Implements `Traces`. `close` sends what is still held back."""

    def __init__(self, provider: trace.TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("headgate", __version__)

    @contextmanager
    def attempt(self, name: str, facts: Mapping[str, str | int]) -> Iterator[TellOutcome]:
        attributes = {f"headgate.{key}": value for key, value in facts.items()}
        # A root of its own: whatever ran before in this process has nothing to do with it.
        with self._tracer.start_as_current_span(name, context=Context(), attributes=attributes) as span:

            def told(outcome: str) -> None:
                span.set_attribute("headgate.outcome", outcome)
                span.set_status(StatusCode.OK if outcome == COMPLETED else StatusCode.ERROR)

            yield told
        # An executor may be ended at any moment after this.
        if isinstance(self._provider, TracerProvider):
            self._provider.force_flush(_FLUSH_MS)

    def phase(self, name: str) -> AbstractContextManager[object]:
        return self._tracer.start_as_current_span(name)

    def close(self) -> None:
        if isinstance(self._provider, TracerProvider):
            self._provider.shutdown()


def open_traces(*, exporter: SpanExporter | None = None) -> OpenTelemetryTraces:
    """Traces to the exporter that the environment names, `otlp` if it names none."""
    known = trace.get_tracer_provider()
    if isinstance(known, TracerProvider) and exporter is None:
        return OpenTelemetryTraces(known)
    resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "headgate")})
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(exporter or _named_exporter()))
    return OpenTelemetryTraces(provider)


def _named_exporter() -> SpanExporter:
    name = os.environ.get(_EXPORTER, "otlp")
    installed: Mapping[str, Any] = {one.name: one for one in entry_points(group="opentelemetry_traces_exporter")}
    # `otlp` is what the variable says; its packages register the transport with it.
    found = installed.get(name) or installed.get({"otlp": "otlp_proto_http"}.get(name, name))
    if found is None:
        raise InvalidSettings(
            message=f"traces are on, and no OpenTelemetry exporter called {name!r} is installed",
            hint="pip install opentelemetry-exporter-otlp-proto-http, or set OTEL_TRACES_EXPORTER"
            + (f" to one of {', '.join(sorted(installed))}" if installed else ""),
            source=_EXPORTER,
        )
    made = found.load()()
    assert isinstance(made, SpanExporter)
    return made
