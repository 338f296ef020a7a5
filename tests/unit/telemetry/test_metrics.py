"""The names that dashboards rely on, what attempts report under them, and the address that answers."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import urllib3
from tests.unit.attempts.kit import WRITE, Kit, Params, Result, at, declared

from headgate.attempts.lake_store import lake_opener
from headgate.errors import InvalidSettings, PublishFenceError, StaleAttemptError
from headgate.failpoints import Failpoint
from headgate.lake import EmbeddedLake
from headgate.orchestrators.machine import Machine
from headgate.orchestrators.worker.telemetry import StagingBranches
from headgate.settings import Settings, TelemetrySettings, load
from headgate.telemetry.endpoint import Sources, answer, serving
from headgate.telemetry.metrics import (
    ABANDONED,
    LEASE_REMAINING,
    METRICS,
    STAGING_BRANCHES,
    attempt_ended,
    fence_refused,
    phase_took,
    publish_took,
    transferred,
)
from headgate.telemetry.registry import CONTENT_TYPE, MetricsRegistry

CONTRACT = {
    "headgate_attempts_total": {"task", "outcome"},
    "headgate_attempt_phase_seconds": {"task", "phase"},
    "headgate_publish_seconds": {"store", "move", "strength"},
    "headgate_fence_refused_total": {"fence", "reason"},
    "headgate_lease_remaining_seconds": set(),
    "headgate_abandoned_publications": set(),
    "headgate_staging_branches": set(),
    "headgate_transfer_bytes_total": {"direction", "from"},
}


def shown(registry: MetricsRegistry) -> dict[str, float]:
    """Every sample by its name and labels, but for those of buckets and of when a series began."""
    lines = registry.text().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples if "_bucket{" not in name and "_created" not in name}


def test_names_and_labels_are_those_of_the_contract() -> None:
    """What is served is looked at, not only the table: a library may rename."""
    assert {metric.name: set(metric.labels) for metric in METRICS} == CONTRACT
    registry = MetricsRegistry()
    registry.record(attempt_ended("t", "completed"))
    registry.record(phase_took("t", "body", 0.1))
    registry.record(publish_took("workspace", "merge", "hard", 0.1))
    refused = fence_refused(StaleAttemptError(message="m", status="IN_PROGRESS"))
    assert refused is not None
    registry.record(refused)
    registry.record(transferred("down", "lake", 1))
    served: dict[str, set[str]] = {}
    for sample in shown(registry):
        name, _, labels = sample.partition("{")
        served.setdefault(re.sub("_(count|sum)$", "", name), set()).update(re.findall(r'(\w+)="', labels))
    assert served == CONTRACT


def test_an_attempt_reports_its_phases_its_publish_and_its_end(kit: Kit) -> None:
    registry = MetricsRegistry()
    opener = lake_opener(lambda block: kit.lake, recorder=registry)
    watched = kit.with_parts(recorder=registry, stores={"workspace": opener})
    report = watched.run(WRITE)
    assert report.ok, report.reason
    seen, task = shown(registry), WRITE.name
    assert seen[f'headgate_attempts_total{{outcome="completed",task="{task}"}}'] == 1
    assert seen['headgate_publish_seconds_count{move="merge",store="workspace",strength="hard"}'] == 1
    assert seen['headgate_transfer_bytes_total{direction="down",from="lake"}'] == 2
    assert seen['headgate_transfer_bytes_total{direction="up",from="workspace"}'] == 3
    phases = set(re.findall(r'phase="([^"]+)"', "\n".join(seen)))
    assert phases == {
        *("input", "download", "pre guardrail", "body", "post guardrail", "attempt fence", "stage"),
        *("publish fence", "publish", "cleanup"),
    }


def test_staging_branches_are_counted_in_the_lakes(tmp_path: Path) -> None:
    """Those that a dead worker left are there, too; a lake is not asked at each look."""
    (tmp_path / "headgate.toml").write_text('[stores.songs]\nlake = "embedded"\n')
    settings = load(start=tmp_path, environ={}, home=tmp_path).settings
    with EmbeddedLake(tmp_path / ".headgate/lake", create=True) as lake, Machine(settings) as machine:
        ref = lake.create_repository("songs")
        counted = StagingBranches(machine)
        lake.create_branch("songs", "headgate-staging-x", at=ref)
        assert counted.count() == 1
        lake.create_branch("songs", "headgate-staging-y", at=ref)
        assert counted.count() == 1
        assert StagingBranches(machine).count() == 2


def test_failures_are_counted_by_cause_and_fences_by_reason(kit: Kit) -> None:
    registry = MetricsRegistry()
    watched = kit.with_parts(recorder=registry)

    def breaks(workspace: Path, params: Params) -> Result:
        raise ValueError("no")

    broken = declared(breaks)
    watched.run(broken)
    with at(Failpoint.ATTEMPT_STAGED, lambda: kit.somebody_commits()):
        watched.run(WRITE)
    cancelled = kit.submit(WRITE, ref=kit.lake.resolve(kit.repository, "main"))
    with at(Failpoint.ATTEMPT_AFTER_BODY, lambda: kit.orchestrator.cancel(cancelled.id.workflow, reason="r")):
        watched.run(WRITE, cancelled)
    seen = shown(registry)
    assert seen[f'headgate_attempts_total{{outcome="body_raised",task="{broken.name}"}}'] == 1
    assert seen[f'headgate_attempts_total{{outcome="head_not_allowed",task="{WRITE.name}"}}'] == 1
    assert seen['headgate_fence_refused_total{fence="publish",reason="head_not_abandoned"}'] == 1
    assert seen['headgate_fence_refused_total{fence="attempt",reason="cancelled"}'] == 1


@pytest.mark.parametrize(
    ("error", "labels"),
    [
        (StaleAttemptError(message="m", status="IN_PROGRESS"), ("attempt", "other_attempt")),
        (StaleAttemptError(message="m", status="COMPLETED"), ("attempt", "task_over")),
        (StaleAttemptError(message="m", status="CANCELED"), ("attempt", "cancelled")),
        (StaleAttemptError(message="m"), ("attempt", "no_answer")),
        (PublishFenceError(message="m", input_ref="a", head="c", head_parent="b"), ("publish", "head_moved")),
        (PublishFenceError(message="m", input_ref="a", head="b", head_parent="a"), ("publish", "head_not_abandoned")),
    ],
)
def test_reasons_of_a_refusal_are_few(error: StaleAttemptError, labels: tuple[str, str]) -> None:
    seen = fence_refused(error)
    assert seen is not None
    assert seen.labels == labels


def test_what_is_no_refusal_counts_as_none() -> None:
    assert fence_refused(InvalidSettings(message="m")) is None


def test_a_gauge_can_be_asked_when_somebody_looks() -> None:
    registry, now = MetricsRegistry(), [3.0]
    registry.ask(ABANDONED, lambda: now[0])
    registry.ask(LEASE_REMAINING, lambda: None)
    assert shown(registry)["headgate_abandoned_publications"] == 3
    assert "headgate_lease_remaining_seconds" not in shown(registry)
    now[0] = 4
    assert shown(registry)["headgate_abandoned_publications"] == 4
    registry.ask(ABANDONED, lambda: 5.0)
    assert shown(registry)["headgate_abandoned_publications"] == 5


def test_the_endpoint_answers_metrics_and_health() -> None:
    registry, waits = MetricsRegistry(), ["for the server"]
    registry.ask(STAGING_BRANCHES, lambda: 2.0)
    sources = Sources(registry.text, CONTENT_TYPE, lambda: waits[0] if waits else None)
    with serving("127.0.0.1:0", sources) as address, urllib3.PoolManager(retries=False) as pool:

        def get(path: str) -> urllib3.BaseHTTPResponse:
            return pool.request("GET", f"http://{address}{path}")

        metrics = get("/metrics")
        assert (metrics.status, metrics.headers["Content-Type"]) == (200, CONTENT_TYPE)
        assert b"headgate_staging_branches 2.0" in metrics.data
        assert (get("/livez").status, get("/livez").data) == (200, b"ok\n")
        assert (get("/readyz").status, get("/readyz").data) == (503, b"for the server\n")
        waits.clear()
        assert get("/readyz").status == 200
        assert get("/else").status == 404


def test_a_process_that_is_broken_is_neither_live_nor_ready() -> None:
    sources = Sources(lambda: b"", CONTENT_TYPE, lambda: None, lambda: "no poller runs")
    assert answer("/livez", sources) == answer("/readyz", sources)
    assert answer("/livez", sources)[:2] == (503, b"no poller runs\n")


def test_the_address_is_a_setting() -> None:
    sources = Sources(lambda: b"", CONTENT_TYPE, lambda: None)
    with serving(Settings().telemetry.address, sources) as address:
        assert address is None
    settings = Settings(telemetry=TelemetrySettings(address="127.0.0.1:0"))
    with serving(settings.telemetry.address, sources) as address, urllib3.PoolManager() as pool:
        assert pool.request("GET", f"http://{address}/livez").status == 200


def test_an_answer_that_fails_says_so() -> None:
    def fails() -> bytes:
        raise ValueError("broken")

    with serving("127.0.0.1:0", Sources(fails, "text/plain", lambda: None)) as address, urllib3.PoolManager() as pool:
        found = pool.request("GET", f"http://{address}/metrics")
        assert (found.status, found.data) == (500, b"ValueError: broken\n")


@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:x", "127.0.0.1:99999999", "203.0.113.1:80"])
def test_an_address_that_cannot_be_listened_at_is_named(address: str) -> None:
    with pytest.raises(InvalidSettings, match=re.escape(address)) as caught:
        with serving(address, Sources(lambda: b"", "text/plain", lambda: None)):
            pass
    assert "HOST:PORT" in caught.value.hint


def test_attempts_load_no_library_of_metrics_or_traces() -> None:
    code = (
        "import sys, headgate.orchestrators.machine, headgate.attempts.lifecycle\n"
        "print([name for name in ('prometheus_client', 'opentelemetry', 'http.server') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
