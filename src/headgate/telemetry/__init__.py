"""What operators see of attempts: metrics, health and traces.

`metrics` is the table of names that dashboards rely on, and the seam by which attempts report; `registry` adds up what
is reported and writes it as Prometheus reads it, `endpoint` answers over HTTP, `traces` makes one trace of
each attempt.
Nothing here is imported or costs anything unless it is turned on.
"""

from headgate.telemetry.metrics import METRICS, SILENT, Metric, Observation, Recorder
from headgate.telemetry.traces import NO_TRACES, Traces

__all__ = ["METRICS", "NO_TRACES", "SILENT", "Metric", "Observation", "Recorder", "Traces"]
