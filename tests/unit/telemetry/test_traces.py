"""One trace of each attempt, with a span for each phase."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.unit.attempts.kit import WRITE, Kit, Params, Result, declared

from headgate.errors import InvalidSettings
from headgate.orchestrators.machine import Machine
from headgate.settings import Settings, TelemetrySettings
from headgate.tasks import TaskDeclaration
from headgate.telemetry import NO_TRACES
from headgate.telemetry.open_telemetry import OpenTelemetryTraces, open_traces


def traced(kit: Kit, declaration: TaskDeclaration, times: int = 1) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    traces = open_traces(exporter=exporter)
    for _ in range(times):
        kit.with_parts(traces=traces).run(declaration)
    # Sent when the attempt is over, and not when the process ends: an executor may be killed at any time.
    spans = list(exporter.get_finished_spans())
    traces.close()
    return spans


def test_an_attempt_is_one_trace_with_a_span_for_each_phase(kit: Kit) -> None:
    seen: list[int] = []

    def body(workspace: Path, params: Params) -> Result:
        seen.append(trace.get_current_span().get_span_context().span_id)
        (workspace / "out.txt").write_text("x")
        return Result(files=1)

    spans = traced(kit, declaration := declared(body))
    [root] = [span for span in spans if span.parent is None]
    phases = [span for span in spans if span.parent is not None]
    assert root.name == declaration.name
    assert root.attributes is not None
    assert {
        "headgate.task",
        "headgate.workflow",
        "headgate.task_id",
        "headgate.retry_count",
        "headgate.execution",
    } <= set(root.attributes)
    assert (root.attributes["headgate.outcome"], root.status.status_code) == ("completed", StatusCode.OK)
    assert {span.parent.span_id for span in phases if span.parent} == {root.context.span_id}
    assert {"input", "download", "body", "stage", "publish fence", "second attempt fence", "publish", "complete"} <= {
        span.name for span in phases
    }
    [of_body] = [span for span in phases if span.name == "body"]
    assert seen == [of_body.context.span_id]


def test_a_failure_marks_its_phase_and_the_attempt(kit: Kit) -> None:
    def breaks(workspace: Path, params: Params) -> Result:
        raise ValueError("no")

    declaration = declared(breaks)
    spans = {span.name: span for span in traced(kit, declaration)}
    assert spans["body"].status.status_code is StatusCode.ERROR
    root = spans[declaration.name]
    assert root.attributes is not None
    assert (root.attributes["headgate.outcome"], root.status.status_code) == ("body_raised", StatusCode.ERROR)


def test_every_attempt_has_a_trace_of_its_own(kit: Kit) -> None:
    assert len({span.context.trace_id for span in traced(kit, WRITE, times=2)}) == 2


def test_traces_are_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Machine(Settings(state=tmp_path)) as machine:
        assert machine.traces is NO_TRACES
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    with Machine(Settings(state=tmp_path, telemetry=TelemetrySettings(traces=True))) as machine:
        assert isinstance(machine.runtime().traces, OpenTelemetryTraces)


def test_an_exporter_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "carrier-pigeon")
    with pytest.raises(InvalidSettings, match="'carrier-pigeon'"):
        open_traces()
