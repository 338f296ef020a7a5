"""Adds up what attempts report, and writes it as Prometheus reads it. Needs the extra `telemetry`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headgate.errors import MissingExtra
from headgate.telemetry.metrics import METRICS, Kind, Metric, Observation

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
    from prometheus_client.registry import Collector
except ImportError as error:
    raise MissingExtra(
        message="metrics need prometheus-client, which is not installed",
        hint="pip install 'headgate[telemetry]'",
        extra="telemetry",
    ) from error

__all__ = ["CONTENT_TYPE", "MetricsRegistry"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)


class MetricsRegistry:
    """A `Recorder` that keeps. Every metric of the table is there from the start; those without labels show 0."""

    def __init__(self, metrics: Iterable[Metric] = METRICS) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._asked: dict[str, Callable[[], float | None]] = {}
        self._known = {metric.name: metric for metric in metrics}
        self._kept = {metric.name: self._made(metric) for metric in self._known.values()}
        self._registry.register(_Asked(self._known, self._asked))

    def _made(self, metric: Metric) -> Counter | Gauge | Histogram:
        if metric.kind is Kind.COUNTER:
            # The library writes the ending itself.
            return Counter(metric.name.removesuffix("_total"), metric.about, metric.labels, registry=self._registry)
        if metric.kind is Kind.HISTOGRAM:
            return Histogram(metric.name, metric.about, metric.labels, registry=self._registry, buckets=_SECONDS)
        return Gauge(metric.name, metric.about, metric.labels, registry=self._registry)

    def record(self, seen: Observation) -> None:
        kept = self._kept[seen.metric]
        one = kept.labels(*seen.labels) if seen.labels else kept
        if isinstance(one, Histogram):
            one.observe(seen.value)
        else:
            one.inc(seen.value)

    def ask(self, metric: Metric, value: Callable[[], float | None]) -> None:
        """Let a gauge be what `value` says whenever somebody looks; None leaves it out."""
        if metric.name not in self._asked:
            self._registry.unregister(self._kept[metric.name])
        self._asked[metric.name] = value

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Asked(Collector):
    """Gauges whose value is found out when it is asked for."""

    def __init__(self, known: dict[str, Metric], asked: dict[str, Callable[[], float | None]]) -> None:
        self._known, self._asked = known, asked

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, ask in self._asked.items():
            family = GaugeMetricFamily(name, self._known[name].about)
            value = ask()
            if value is not None:
                family.add_metric([], value)
            yield family
